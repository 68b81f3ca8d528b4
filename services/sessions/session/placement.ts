import type { WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { type KnownWorker, takesSessions } from '../worker/worker-directory.ts';

/** A worker that has not answered by then is pinged: making a sandbox may take long, answering a ping may not. */
export const pingAfterMs = 1_000;

/** Whether a worker's error says that the worker takes nothing now: another may be asked. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof DomainError)) return false;
  return error.reason === 'WORKER_UNREACHABLE' || error.reason === 'SHUTTING_DOWN';
}

/**
 * The workers that can take a session, the one with most room first, those that did not answer lately last. `promised` counts sessions that this process has
 * placed and that the worker's registration does not show yet. Such sessions only change the order: the worker may refuse them, and its last places may be kept
 * for another project, so only the worker can tell who gets none.
 */
export function placementOrder(workers: readonly KnownWorker[], promised: ReadonlyMap<string, number>): WorkerRecord[] {
  const there = workers.filter(({ record, reachable }) => reachable && takesSessions(record));
  const taking = there.filter(({ record }) => record.engineProblem === '');
  if (taking.length === 0) {
    const found = there.length === 0 ? 'is there to take a session (assay workers ls)' : 'has an engine that answers';
    throw new DomainError('NO_WORKER', `none of ${workers.length} workers ${found}; start one, or wait for it`);
  }
  const open = taking.filter(({ record }) => record.pressure === '');
  if (open.length === 0) throw new DomainError('HOST_FULL', taking[0]?.record.pressure ?? '');
  const room = ({ record }: KnownWorker): number =>
    record.capacity - record.sessions - (promised.get(record.workerId) ?? 0);
  const roomy = open
    .filter(({ record }) => record.sessions < record.capacity)
    .sort((a, b) => Number(isDoubtful(a)) - Number(isDoubtful(b)) || room(b) - room(a));
  if (roomy.length === 0) throw noCapacity(taking.length);
  return roomy.map(({ record }) => record);
}

function isDoubtful({ suspect, connectFailure }: KnownWorker): boolean {
  return suspect || connectFailure !== undefined;
}

export function noCapacity(workers: number): DomainError {
  return new DomainError(
    'NO_CAPACITY',
    `all ${workers} workers are full (ASSAY_WORKER_CAPACITY); close a session, or try again later`,
  );
}

export function noShare(workers: number): DomainError {
  const message =
    `the project has its share of what the sandboxes of ${workers} workers may use, and what is left is for other projects ` +
    '(ASSAY_PROJECT_SHARE); close a session, or try again later';
  return new DomainError('CAPACITY_SHARE', message);
}

export function noneAnswers(workers: number): DomainError {
  const message = `none of the ${workers} workers with room answers; start one, or try again when one is back`;
  return new DomainError('NO_WORKER', message);
}
