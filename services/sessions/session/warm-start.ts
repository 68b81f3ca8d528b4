import type { SessionRecord, WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import type { WorkerClient } from '../worker/worker-client.ts';
import { isAway, pingAfterMs } from './placement.ts';
import type { SessionDirectory } from './session-directory.ts';

/**
 * Asks a worker for a sandbox that is ready. The record it wrote, or undefined: then the sandbox must be made. Rejects where
 * the worker takes nothing now.
 */
export type WarmStart = (worker: WorkerRecord, record: SessionRecord) => Promise<SessionRecord | undefined>;

/**
 * The worker writes the session's first record itself, READY, so a warm session costs one write. Whatever goes wrong, the
 * ordinary way is safe: if the worker wrote after all, the record that is to be written next is found to exist.
 */
export function createWarmStart(client: WorkerClient, sessions: SessionDirectory, timeoutMs: number): WarmStart {
  return async (worker, record) => {
    if (!worker.capabilities.includes('warm_pool')) return undefined;
    try {
      const { takeWarmSandbox } = WorkerService.method;
      const taken = await client.call(worker.address, takeWarmSandbox, { record }, { timeoutMs, pingAfterMs });
      if (taken.record === undefined) return undefined;
      return sessions.note({ value: taken.record, revision: taken.revision });
    } catch (error) {
      if (isAway(error)) throw error;
      return undefined;
    }
  };
}
