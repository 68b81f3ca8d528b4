import type { WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Stored } from './session-store.ts';

/** Worker registrations. */
export interface WorkerStore {
  get(workerId: string): Promise<Stored<WorkerRecord> | undefined>;
  /** Writes the registration if it is still at `revision` (0: if there is none). Undefined: somebody else wrote. */
  put(record: WorkerRecord, revision: bigint | number): Promise<Stored<WorkerRecord> | undefined>;
}
