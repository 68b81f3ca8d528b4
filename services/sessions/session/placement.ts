import type { WorkerRecord } from '../../../gen/assay/events/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { KnownWorker } from '../worker/worker-directory.ts';

/**
 * The workers that can take a session, the one with most room first. `promised` counts sessions that this process has
 * placed and that the worker's registration does not show yet.
 */
export function placementOrder(workers: readonly KnownWorker[], promised: ReadonlyMap<string, number>): WorkerRecord[] {
  const taking = workers.filter(({ record, reachable }) => reachable && !record.draining);
  if (taking.length === 0) {
    const message = `none of ${workers.length} workers is there to take a session; start one, or wait for it`;
    throw new DomainError('NO_WORKER', message);
  }
  const room = ({ record }: KnownWorker): number =>
    record.capacity - record.sessions - (promised.get(record.workerId) ?? 0);
  const roomy = taking.filter((worker) => room(worker) > 0).sort((a, b) => room(b) - room(a));
  if (roomy.length === 0) throw noCapacity(taking.length);
  return roomy.map(({ record }) => record);
}

export function noCapacity(workers: number): DomainError {
  return new DomainError('NO_CAPACITY', `all ${workers} workers are full; close a session, or try again later`);
}
