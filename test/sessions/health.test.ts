import { Readable } from 'node:stream';
import { create } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { VerificationRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { WorkerState } from '../../gen/assay/v1/worker_pb.js';
import { Health, HealthCheckResponse_ServingStatus as Status } from '../../gen/health/v1/health_pb.js';
import { createNatsObjectBucket } from '../../services/shared/store/nats-object-bucket.ts';
import { createNatsVerificationStore } from '../../services/shared/store/nats-verification-store.ts';
import { getPage } from '../http-page.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

const maxBytes = 2 ** 20;
let service: RunningService;
let worker: WorkerDouble;
beforeAll(async () => {
  service = await runService({
    env: { ASSAY_VERIFICATION_STORE_BYTES: String(maxBytes), ASSAY_JOB_SWEEP_SECONDS: '86400' },
  });
});
afterAll(() => service.stop());

const page = (path: string) => getPage(`http://127.0.0.1:${service.port}${path}`);
const checked = async () => (await createClient(Health, service.transport(undefined)).check({})).status;
const ready = async () => [(await page('/readyz')).status, (await page('/healthz')).status, await checked()];
const yes = [200, 200, Status.SERVING];
const no = [503, 503, Status.NOT_SERVING];

test('a service without a worker lives and is not ready, and says why', async () => {
  expect(await page('/livez')).toMatchObject({ status: 200, text: 'ok\n' });
  expect(await ready()).toEqual(no);
  expect((await page('/readyz')).text).toBe('no worker is reachable\n');
  expect(JSON.parse((await page('/healthz')).text)).toEqual({
    ...{ ok: false, serving: true, store: 'ok', reachable_workers: 0, problems: ['no worker is reachable'] },
    warnings: [],
  });
});

test('it is ready with a worker, and a watch of its health hears of that', async () => {
  const states: Status[] = [];
  const abort = new AbortController();
  const watching = (async () => {
    const health = createClient(Health, service.transport(undefined));
    for await (const { status } of health.watch({}, { signal: abort.signal })) states.push(status);
  })().catch(() => {});
  await expect.poll(() => states).toEqual([Status.NOT_SERVING]);
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  await expect.poll(() => states).toEqual([Status.NOT_SERVING, Status.SERVING]);
  expect(await ready()).toEqual(yes);
  abort.abort();
  await watching;
});

test('it is not ready while the engine of its only worker is down, and makes no session there', async () => {
  await worker.register({ engineProblem: 'the engine does not answer: ENOENT' });
  await expect.poll(ready).toEqual(no);
  expect((await page('/readyz')).text).toContain('an engine that answers');
  expect((await page('/livez')).status).toBe(200);
  const { sessions } = clientsOf(service.transport(adminKey));
  expect(reasonOf(await sessions.createSession({}).catch((error) => error))).toBe('NO_WORKER');
  await worker.register({ engineProblem: '' });
  await expect.poll(ready).toEqual(yes);
});

test('it is not ready while its only worker advertises an address that leads nowhere, and names both', async () => {
  const { address } = worker;
  // Nothing listens on this port of the loopback.
  await worker.register({ address: '127.0.0.1:1' });
  await expect.poll(ready).toEqual(no);
  const sentence = `worker ${worker.workerId} advertised 127.0.0.1:1 but cannot be reached: connect ECONNREFUSED 127.0.0.1:1`;
  expect((await page('/readyz')).text).toBe(`no worker is reachable\n${sentence}\n`);
  expect(JSON.parse((await page('/healthz')).text)).toMatchObject({ ok: false, reachable_workers: 0 });
  const { workers } = clientsOf(service.transport(adminKey));
  const unreachable = { workerId: worker.workerId, state: WorkerState.UNREACHABLE };
  expect((await workers.listWorkers({})).workers).toMatchObject([unreachable]);
  expect(await service.metrics()).toContain('assay_workers{state="unreachable"} 1');
  await worker.register({ address });
  await expect.poll(ready).toEqual(yes);
});

test('it is ready while an object store is full, and warns', async () => {
  const objects = await createNatsObjectBucket(service.broker, 'assay_samples', {
    ...{ keepMs: 86_400_000, maxBytes, replicas: 1 },
  });
  const fill = async (bytes: number): Promise<void> => {
    for (let made = 0; made < 1_000; made++) {
      await objects.put(`${bytes}-${made}`, Readable.from([Buffer.alloc(bytes)]));
    }
  };
  for (const bytes of [65_536, 4_096]) await expect(fill(bytes)).rejects.toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  const warnings = async () => JSON.parse((await page('/healthz')).text).warnings.join('\n');
  await expect.poll(warnings).toMatch(/the store assay_samples is full: .*; samples that are not in it cannot be used/);
  expect(await ready()).toEqual(yes);
});

test('it is ready while the queue of jobs is gone, and warns', async () => {
  const { streams } = await service.broker.js.jetstreamManager(false);
  await streams.delete('ASSAY_JOBS');
  const warnings = async () => JSON.parse((await page('/healthz')).text).warnings.join('\n');
  await expect.poll(warnings).toContain('the store ASSAY_JOBS cannot be used: stream not found');
  expect(await ready()).toEqual(yes);
});

test('it is not ready while a store of records is full', async () => {
  const store = createNatsVerificationStore({ broker: service.broker, onEventLost() {} });
  const fill = async (): Promise<void> => {
    for (let made = 0; made < 1_000; made++) {
      const verification = {
        verificationId: `v-${made}`,
        state: VerificationState.PENDING,
        message: 'x'.repeat(8_192),
      };
      await store.create(create(VerificationRecordSchema, { project: 'default', verification }));
    }
  };
  await expect(fill()).rejects.toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  await expect.poll(ready).toEqual(no);
  expect((await page('/readyz')).text).toContain('the store assay_verifications is full');
});
