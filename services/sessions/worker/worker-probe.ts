import type { Logger } from '../../shared/log.ts';
import type { WorkerClient } from './worker-client.ts';
import type { WorkerDirectory } from './worker-directory.ts';

export interface WorkerProbeDeps {
  readonly workers: Pick<WorkerDirectory, 'all' | 'probed'>;
  readonly client: Pick<WorkerClient, 'reach'>;
  readonly log: Pick<Logger, 'warn' | 'info'>;
}

/**
 * Finds out which workers this process can connect to: a worker registers through the broker, whether or not the address
 * that it advertises leads to it. Connections are kept, so looking at a worker that answers costs nothing.
 */
export type WorkerProbe = () => Promise<void>;

export function createWorkerProbe({ workers, client, log }: WorkerProbeDeps): WorkerProbe {
  return async () => {
    const registered = workers.all().filter(({ reachable }) => reachable);
    const probes = registered.map(async ({ record, connectFailure: before }) => {
      const failure = await client.reach(record.address).then(() => undefined, reasonOf);
      workers.probed(record, failure);
      const about = { worker_id: record.workerId, address: record.address };
      if (failure !== undefined && before === undefined) {
        log.warn({ ...about, reason: failure }, 'a worker cannot be reached at the address that it advertises');
      } else if (failure === undefined && before !== undefined) log.info(about, 'a worker can be reached again');
    });
    await Promise.all(probes);
  };
}

/** What the socket said: the error around it speaks to the owner of a session. */
function reasonOf(error: Error): string {
  const { cause } = error;
  if (cause === undefined) return error.message;
  return cause instanceof Error ? cause.message : String(cause);
}
