import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { createRecordKeeper } from '../../../services/sandbox-worker/sandbox/record-keeper.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import type { SessionStore } from '../../../services/shared/store/session-store.ts';
import { type NatsProcess, startNats } from '../../shared/store/nats-process.ts';
import { log } from '../docker/scratch-host.ts';

let nats: NatsProcess;
let broker: Broker;
let store: SessionStore;

beforeAll(async () => {
  nats = await startNats();
  const { url, user, password } = nats;
  broker = await connectBroker({ url, user, password, name: 'test', replicas: 1 });
  store = createNatsSessionStore({ broker, onEventLost() {} });
});
afterAll(async () => {
  await broker?.close();
  await nats?.stop();
});

test('a worker that comes too late neither reads nor writes the record of a session that another one makes', async () => {
  const session = { sessionId: 's', workerId: 'one', state: SessionState.CREATING };
  await store.create(create(SessionRecordSchema, { project: 'p', session }));
  const [one, two] = ['one', 'two'].map((workerId) => createRecordKeeper(store, workerId, log));
  expect(await one?.get('p', 's')).toBeDefined();
  await store.update('p', 's', (record) => ({ ...record, session: { ...record.session, workerId: 'two' } }) as never);
  await one?.put('p', 's', { type: 'ready' });
  await one?.put('p', 's', { type: 'failed', endReason: SessionEndReason.CREATE_FAILED, message: 'late', atMs: 0 });
  expect(await one?.get('p', 's')).toBeUndefined();
  expect((await two?.get('p', 's'))?.session?.state).toBe(SessionState.CREATING);
  await two?.put('p', 's', { type: 'ready' });
  expect((await two?.get('p', 's'))?.session?.state).toBe(SessionState.READY);
});

test('a record that cannot be written keeps no other from being written, and a long message is cut', async () => {
  for (const sessionId of ['bad', 'good']) {
    const session = { sessionId, workerId: 'three', state: SessionState.CREATING };
    await store.create(create(SessionRecordSchema, { project: 'p', session }));
  }
  let silent = true;
  const keeper = createRecordKeeper(
    {
      ...store,
      update: (project, sessionId, change) => {
        if (silent || sessionId === 'bad') throw new DomainError('STORE_UNAVAILABLE', 'silent');
        return store.update(project, sessionId, change);
      },
    },
    'three',
    log,
  );
  await keeper.put('p', 'bad', { type: 'ready' });
  await keeper.put('p', 'good', {
    type: 'failed',
    endReason: SessionEndReason.CREATE_FAILED,
    message: 'x'.repeat(4_000_000),
    atMs: 0,
  });
  silent = false;
  await expect(keeper.settle()).rejects.toThrow('silent');
  expect([keeper.owes('bad'), keeper.owes('good')]).toEqual([true, false]);
  const { session } = (await store.get('p', 'good'))?.value ?? {};
  expect(session?.state).toBe(SessionState.FAILED);
  expect(session?.message.length).toBeLessThan(2_100);
});
