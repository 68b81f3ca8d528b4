import { WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Broker } from './broker.ts';
import { createRecordBucket } from './record-bucket.ts';
import type { WorkerStore } from './worker-store.ts';

/** Worker registrations in the bucket `assay_workers`. */
export function createNatsWorkerStore(broker: Broker): WorkerStore {
  const bucket = createRecordBucket(broker, 'assay_workers', WorkerRecordSchema);
  return {
    get: (workerId) => bucket.get(workerId),
    put: (record, revision) => bucket.compareAndSet(record.workerId, record, Number(revision)),
  };
}
