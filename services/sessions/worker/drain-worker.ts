import { create } from '@bufbuild/protobuf';
import { WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { workerNotFound } from './forget-worker.ts';
import type { KnownWorker, WorkerDirectory } from './worker-directory.ts';

/** Writes down whether a worker is to take no new sessions. The worker keeps it, and so does the next life of the worker. */
export async function drainWorker(
  workers: Pick<WorkerDirectory, 'fresh' | 'replace'>,
  workerId: string,
  drained: boolean,
): Promise<KnownWorker> {
  for (;;) {
    const found = await workers.fresh(workerId);
    if (found === undefined || found.record.forgotten) throw workerNotFound(workerId);
    if (found.record.drained === drained) return found;
    const next = { ...create(WorkerRecordSchema, found.record), drained };
    // A renewal that came first is seen in the next round.
    if (await workers.replace(next, found.revision)) return { ...found, record: next };
  }
}
