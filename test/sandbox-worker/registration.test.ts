import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
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

function registered(workerId: string, replaced: () => void): Promise<Registration> {
  return register({
    ...{ store, workerId, replaced, address: '127.0.0.1:1', capacity: 1, capabilities: [], load: () => 0 },
    ...{ warm: { size: 0, capacity: 0 }, log: pino({ enabled: false }) },
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
