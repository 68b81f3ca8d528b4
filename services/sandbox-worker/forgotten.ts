import { DomainError } from '../shared/domain-error.ts';
import type { WorkerStore } from '../shared/store/worker-store.ts';
import { dropWorkerId } from './data-lock.ts';
import type { Engine } from './docker/engine.ts';
import type { Networks } from './network/networks.ts';
import type { Slots } from './sandbox/slot.ts';

export interface ForgottenDeps {
  readonly workers: WorkerStore;
  readonly workerId: string;
  readonly engine: Engine;
  readonly networks: Networks;
  readonly slots: Slots;
  readonly installation: string;
  readonly dataDirectory: string;
}

/**
 * Rejects if the operator has given this worker up. Its sessions are LOST, or are about to be, so all that is left of them
 * here goes first, and the id last: a worker that dies in between begins again, and one that does not is a new one next time.
 */
export async function checkNotForgotten(deps: ForgottenDeps): Promise<void> {
  const { workers, workerId, engine, slots } = deps;
  if ((await workers.get(workerId))?.value.forgotten !== true) return;
  const containers = await engine.list(deps.installation);
  await Promise.all(containers.map(({ id }) => engine.remove(id)));
  for (const name of slots.list()) slots.open(name).remove();
  await deps.networks.settle();
  dropWorkerId(deps.dataDirectory);
  throw forgotten(
    workerId,
    `${containers.length} containers that it had here are removed; start it again as a new worker`,
  );
}

export function forgotten(workerId: string, whatNow: string): DomainError {
  const message = `the operator has forgotten the worker ${workerId}, and its sessions are LOST; ${whatNow}`;
  return new DomainError('WORKER_FORGOTTEN', message, { worker_id: workerId });
}
