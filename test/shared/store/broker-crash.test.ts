import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import { createRecordView } from '../../../services/shared/store/record-view.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

let nats: NatsProcess;
let broker: Broker;

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

const recordOf = (sessionId: string): SessionRecord =>
  create(SessionRecordSchema, { project: 'p', session: { sessionId, state: SessionState.CREATING, workerId: 'w' } });

test('no acknowledged write is lost and none is made twice over six kills of the broker in mid-write', async () => {
  const store = createNatsSessionStore({ broker, onEventLost() {} });
  const view = createRecordView({
    broker,
    bucket: 'assay_sessions',
    schema: SessionRecordSchema,
    now: () => performance.now(),
    onError() {},
  });
  await view.whenWarm();
  const acknowledged = new Map<string, number>();
  const unanswered: unknown[] = [];
  let going = true;
  const write = async (writer: number): Promise<void> => {
    const id = `counter${writer}`;
    await store.create(recordOf(id));
    let count = 0;
    while (going) {
      const next = count + 1;
      try {
        // A retry after an unanswered write must find it made or not made, and never skip or repeat a number.
        const stored = await store.update('p', id, (record) => {
          const session = record.session;
          if (session === undefined) throw new Error('no session');
          const found = Number(session.labels.n ?? '0');
          if (found === next) return undefined;
          expect(found).toBe(count);
          return { ...record, session: { ...session, labels: { n: String(next) } } };
        });
        expect(stored?.value.session?.labels.n).toBe(String(next));
        count = next;
        acknowledged.set(id, count);
      } catch (error) {
        if (!(error instanceof DomainError) || error.reason !== 'STORE_UNAVAILABLE') throw error;
        unanswered.push(error);
      }
    }
  };
  const writers = Promise.all([0, 1, 2, 3].map(write));
  for (let kill = 0; kill < 6; kill += 1) {
    const seen = acknowledged.get('counter0') ?? 0;
    await expect.poll(() => acknowledged.get('counter0') ?? 0, { interval: 5 }).toBeGreaterThan(seen + 20);
    await nats.kill();
    await nats.start();
  }
  const last = acknowledged.get('counter0') ?? 0;
  await expect.poll(() => acknowledged.get('counter0') ?? 0, { interval: 5 }).toBeGreaterThan(last);
  going = false;
  await writers;
  for (const [id, count] of acknowledged) {
    expect((await store.get('p', id))?.value.session?.labels.n).toBe(String(count));
    // The view has come back by itself and says the same.
    await expect.poll(() => view.get(`p.${id}`)?.value.session?.labels.n).toBe(String(count));
  }
  view.close();
});

test('a store without a broker says so and does not wait for it', async () => {
  const store = createNatsSessionStore({ broker, onEventLost() {} });
  await nats.kill();
  const error = await store.get('p', 'counter0').catch((e) => e);
  expect(error).toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  await nats.start();
  await expect.poll(() => store.get('p', 'counter0').then(Boolean, () => false)).toBe(true);
});
