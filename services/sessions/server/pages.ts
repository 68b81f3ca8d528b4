import type { Readiness } from './readiness.ts';
import { answer } from './request-handler.ts';
import type { Response } from './rpc-adapter.ts';

/**
 * `/livez`: this process answers, and is not to be restarted. `/readyz`: it can serve, and may be sent calls. `/healthz`:
 * the same with what was found, for people and scripts.
 */
export function createPages(readiness: Readiness): ReadonlyMap<string, (response: Response) => Promise<void>> {
  return new Map([
    ['/livez', async (response: Response) => answer(response, 200, 'text/plain', 'ok\n')],
    [
      '/readyz',
      async (response: Response) => {
        const { ok, problems } = await readiness.look();
        answer(response, ok ? 200 : 503, 'text/plain', ok ? 'ok\n' : `${problems.join('\n')}\n`);
      },
    ],
    [
      '/healthz',
      async (response: Response) => {
        const { ok, serving, store, reachableWorkers, problems, warnings } = await readiness.look();
        const found = { ok, serving, store, reachable_workers: reachableWorkers, problems, warnings };
        answer(response, ok ? 200 : 503, 'application/json', `${JSON.stringify(found)}\n`);
      },
    ],
  ]);
}
