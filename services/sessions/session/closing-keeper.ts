import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { Logger } from '../../shared/log.ts';
import type { Seen } from '../../shared/store/record-map.ts';
import { startSweeping } from '../sweeping.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { isAway, pingAfterMs } from './placement.ts';
import type { SessionDirectory } from './session-directory.ts';
import { sessionOf } from './session-view.ts';

export interface ClosingKeeperDeps {
  readonly sessions: Pick<SessionDirectory, 'all' | 'whenWarm'>;
  readonly workers: Pick<WorkerDirectory, 'peek'>;
  readonly client: Pick<WorkerClient, 'call'>;
  readonly everyMs: number;
  /** Milliseconds that only ever grow. */
  readonly now: () => number;
  readonly log: Logger;
}

/** CloseSession waits no longer for a worker, so a session that is CLOSING for longer may be one whose worker was not told. */
const callTimeoutMs = 30_000;
/** Calls to workers at one time. */
const inFlight = 8;

/**
 * Tells workers again of sessions that stay CLOSING. A worker that has the sandbox does not read the record, and a service
 * may die, or lose the worker, between writing the record and calling the worker. Closing twice does no harm, so every
 * instance does it. Returns what ends it.
 */
export function keepClosing({ sessions, workers, client, everyMs, now, log }: ClosingKeeperDeps): () => void {
  /** When a worker was last told of a record. */
  const told = new WeakMap<Seen<SessionRecord>, number>();
  const isDue = (seen: Seen<SessionRecord>): boolean =>
    sessionOf(seen.value).state === SessionState.CLOSING &&
    now() - Math.max(seen.seenAtMs, told.get(seen) ?? 0) >= callTimeoutMs;
  const tell = async (seen: Seen<SessionRecord>): Promise<void> => {
    const { project } = seen.value;
    const { sessionId, workerId } = sessionOf(seen.value);
    const worker = workers.peek(workerId);
    if (worker?.reachable !== true) return;
    const options = { timeoutMs: callTimeoutMs, pingAfterMs };
    try {
      await client.call(worker.record.address, WorkerService.method.closeSandbox, { project, sessionId }, options);
    } catch (error) {
      log.warn({ session_id: sessionId, worker_id: workerId, err: error }, 'a session is still CLOSING; retry later');
      if (isAway(error)) return;
    }
    told.set(seen, now());
  };
  const sweep = async (isStopped: () => boolean): Promise<void> => {
    const due = [...sessions.all()].filter(isDue).values();
    const lane = async (): Promise<void> => {
      for (const seen of due) {
        if (isStopped()) return;
        await tell(seen);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
  };
  return startSweeping({
    ready: sessions.whenWarm(),
    ...{ sweep, everyMs },
    onError: (error) => log.warn({ err: error }, 'sessions that are CLOSING could not be looked at; retry later'),
  });
}
