import type { Broker } from '../../shared/store/broker.ts';
import type { Metrics } from '../metrics.ts';
import type { HealthState } from '../rpc/health-service.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { answer } from './request-handler.ts';
import type { Response } from './rpc-adapter.ts';

export interface PagesDeps {
  readonly broker: Pick<Broker, 'ping'>;
  readonly workers: WorkerDirectory;
  readonly health: HealthState;
  readonly metrics: Metrics;
}

/** `/healthz` and `/metrics`. */
export function createPages(deps: PagesDeps): ReadonlyMap<string, (response: Response) => Promise<void>> {
  const { broker, workers, health, metrics } = deps;
  return new Map([
    [
      '/healthz',
      async (response: Response) => {
        const store = await broker.ping().then(
          () => 'ok',
          (error: Error) => error.message,
        );
        const reachable = workers.all().filter((worker) => worker.reachable).length;
        const ok = store === 'ok' && reachable > 0 && health.serving;
        const found = { ok, serving: health.serving, store, reachable_workers: reachable };
        answer(response, ok ? 200 : 503, 'application/json', `${JSON.stringify(found)}\n`);
      },
    ],
    [
      '/metrics',
      async (response: Response) => {
        const { contentType, text } = await metrics.render();
        answer(response, 200, contentType, text);
      },
    ],
  ]);
}
