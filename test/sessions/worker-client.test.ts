import { afterAll, beforeAll, expect, test } from 'vitest';
import { WorkerService } from '../../gen/assay/internal/v1/worker_pb.js';
import { createWorkerClient } from '../../services/sessions/worker/worker-client.ts';
import { createWorkerLinks, type WorkerLinks } from '../../services/sessions/worker/worker-link.ts';
import { type RunningService, runService, workerToken } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let links: WorkerLinks;
beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  links = createWorkerLinks();
});
afterAll(async () => {
  links?.close();
  await service?.stop();
});

test('thousands of answered calls, each left as soon as it is answered, do not cost the link', async () => {
  const client = createWorkerClient(links, workerToken);
  const link = await links.open(worker.address);
  for (let done = 0; done < 2_500; done++) {
    const left = new AbortController();
    await client.call(
      worker.address,
      WorkerService.method.refreshSandbox,
      {},
      { timeoutMs: 5_000, signal: left.signal },
    );
    left.abort();
  }
  expect(link.destroyed).toBe(false);
  expect(await links.open(worker.address)).toBe(link);
});
