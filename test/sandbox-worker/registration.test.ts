import { create } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type WorkerRecord, WorkerRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { type Registration, register } from '../../services/sandbox-worker/registration.ts';
import { type Broker, connectBroker } from '../../services/shared/store/broker.ts';
import { createNatsWorkerStore } from '../../services/shared/store/nats-worker-store.ts';
import type { WorkerStore } from '../../services/shared/store/worker-store.ts';
import { type NatsProcess, startNats } from '../shared/store/nats-process.ts';

let nats: NatsProcess;
let broker: Broker;
let store: WorkerStore;

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
  store = createNatsWorkerStore(broker);
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

function registered(workerId: string, replaced: (by: WorkerRecord) => void): Promise<Registration> {
  return register({
    ...{ store, workerId, replaced, address: '127.0.0.1:1', capacity: 1, capabilities: [], load: () => 0 },
    ...{
      warm: { size: 0, capacity: 0 },
      pressure: () => undefined,
      shortages: () => [],
      engineProblem: () => undefined,
    },
    log: pino({ enabled: false }),
  });
}

test('a worker whose id another one has taken is told so once, and stops without a word in the store', async () => {
  let told = 0;
  const first: Registration = await registered('wrk-1', () => {
    told += 1;
    // What a worker does then; it begins with this.
    void first.drain();
  });
  const second = await registered('wrk-1', () => expect.unreachable('the newer one was not replaced'));
  const before = await store.get('wrk-1');
  await first.drain();
  await first.drain();
  expect(told).toBe(1);
  expect(await store.get('wrk-1')).toEqual(before);
  await second.drain();
  expect((await store.get('wrk-1'))?.value).toMatchObject({ epoch: 2n, draining: true });
  first.stop();
  second.stop();
});

test('a worker that was forgotten is told so, and nobody registers under its id again', async () => {
  const told: WorkerRecord[] = [];
  const away = await registered('wrk-2', (by) => told.push(by));
  const forgotten = create(WorkerRecordSchema, { workerId: 'wrk-2', epoch: 2n, forgotten: true });
  expect(await store.put(forgotten, (await store.get('wrk-2'))?.revision ?? 0)).toBeDefined();
  await away.drain();
  expect(told).toEqual([forgotten]);
  await expect(registered('wrk-2', () => {})).rejects.toMatchObject({ reason: 'WORKER_FORGOTTEN' });
  expect((await store.get('wrk-2'))?.value).toEqual(forgotten);
});

test("the operator's wish to drain a worker outlives its renewals and its next life", async () => {
  const replaced = () => expect.unreachable('nobody else has its id');
  const drain = async (drained: boolean): Promise<void> => {
    const { value, revision } = (await store.get('wrk-3')) ?? {};
    if (value === undefined) throw new Error('no registration');
    expect(await store.put({ ...value, drained }, revision ?? 0)).toBeDefined();
  };
  const first = await registered('wrk-3', replaced);
  await drain(true);
  // The first renewal finds that somebody has written, the next one writes.
  await first.drain();
  await first.drain();
  expect((await store.get('wrk-3'))?.value).toMatchObject({ drained: true, draining: true });
  first.stop();
  const second = await registered('wrk-3', replaced);
  expect((await store.get('wrk-3'))?.value).toMatchObject({ drained: true, draining: false, epoch: 2n });
  await drain(false);
  await second.drain();
  await second.drain();
  expect((await store.get('wrk-3'))?.value).toMatchObject({ drained: false, draining: true });
  second.stop();
});
