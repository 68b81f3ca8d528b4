import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { advance } from '../../../services/shared/session-state.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { watchArchive } from '../../../services/shared/store/nats-archive-watch.ts';
import { createNatsSessionArchive } from '../../../services/shared/store/nats-session-archive.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import type { ArchiveEntry, SessionArchive } from '../../../services/shared/store/session-archive.ts';
import type { SessionStore, StoredSession } from '../../../services/shared/store/session-store.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

let nats: NatsProcess;
let broker: Broker;
let store: SessionStore;
let archive: SessionArchive;

const open = (): Promise<Broker> =>
  connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });

beforeAll(async () => {
  nats = await startNats();
  broker = await open();
  archive = createNatsSessionArchive(broker);
  store = createNatsSessionStore({ broker, archive, onEventLost() {} });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

function recordOf(sessionId: string, { workerId = 'w', project = 'p', createMs = 1_000 } = {}): SessionRecord {
  const createTime = timestampFromMs(createMs);
  return create(SessionRecordSchema, {
    project,
    requestDigest: new Uint8Array(32),
    session: { sessionId, state: SessionState.CREATING, workerId, createTime, env: { SECRET: 'x' } },
  });
}

async function close(sessionId: string): Promise<StoredSession> {
  const stored = await store.update('p', sessionId, (record) => {
    const session = record.session && advance(record.session, { type: 'closed', atMs: 5_000 });
    return session && { ...record, session };
  });
  if (stored === undefined) throw new Error('no record');
  return stored;
}

async function ended(sessionId: string): Promise<StoredSession> {
  await store.create(recordOf(sessionId));
  return close(sessionId);
}

describe('a session that has ended', () => {
  const ways: [string, (stored: StoredSession) => Promise<unknown>][] = [
    ['is still among the live ones', async () => {}],
    ['is in the archive too', ({ value }) => archive.add(value)],
    ['is archived a second time', ({ value }) => archive.add(value).then(() => archive.add(value))],
    ['has left the live ones', (stored) => archive.add(stored.value).then(() => store.remove(stored))],
  ];
  test.each(ways)('and %s is found, and stays as it is', async (way, move) => {
    const id = `ses_${way.replaceAll(' ', '_')}`;
    const stored = await ended(id);
    await move(stored);
    expect((await store.get('p', id))?.value.session).toMatchObject({ sessionId: id, state: SessionState.CLOSED });
    const again = await close(id);
    expect(again.value.session).toEqual(stored.value.session);
    expect(await store.get('other', id)).toBeUndefined();
  });

  test('keeps no variables', async () => {
    expect((await ended('quiet')).value.session?.env).toEqual({});
  });

  test('is removed from the live ones only as it was archived', async () => {
    const created = await store.create(recordOf('changed'));
    await close('changed');
    expect(created && (await store.remove(created))).toBe(false);
    expect((await store.get('p', 'changed'))?.archived).toBe(false);
  });

  test('is removed once, by whoever comes first', async () => {
    const stored = await ended('raced');
    await archive.add(stored.value);
    const removals = await Promise.all([store.remove(stored), store.remove(stored)]);
    expect(removals.toSorted()).toEqual([false, true]);
    expect((await store.get('p', 'raced'))?.archived).toBe(true);
  });
});

test('the archive is watched without its records, and loses only what is asked of one project', async () => {
  const entries: ArchiveEntry[] = [];
  const watch = watchArchive({ broker, tell: (entry) => entries.push(entry), onError() {} });
  await watch.whenComplete();
  for (const [project, id] of [
    ['alpha', 'a1'],
    ['beta', 'b1'],
    ['alpha', 'a2'],
    ['alpha', 'a3'],
  ] as const) {
    await archive.add(recordOf(id, { project, createMs: 7_000 }));
  }
  const ofAlpha = () => entries.filter(({ project }) => project === 'alpha');
  await expect.poll(() => ofAlpha().length).toBe(3);
  watch.stop();
  expect(ofAlpha()[0]).toMatchObject({ createMs: 7_000, state: SessionState.CREATING });
  const third = ofAlpha()[2]?.place ?? 0;
  expect((await archive.at(third))?.session?.sessionId).toBe('a3');
  expect(await archive.removeBefore('alpha', third)).toBe(2);
  expect(await archive.get('alpha', 'a1')).toBeUndefined();
  expect(await archive.get('alpha', 'a3')).toBeDefined();
  expect(await archive.get('beta', 'b1')).toBeDefined();
  expect(await archive.at(ofAlpha()[0]?.place ?? 0)).toBeUndefined();
});

describe('a worker', () => {
  const remindedOf = async (workerId: string) =>
    (await store.remindersOf(workerId)).map(({ sessionId }) => sessionId).toSorted();

  test('is reminded of the sessions that others gave it, and of those alone', async () => {
    await store.create(recordOf('given', { workerId: 'mine' }));
    await store.create(recordOf('moved', { workerId: 'theirs' }));
    const warm = recordOf('warm', { workerId: 'mine' });
    if (warm.session !== undefined) warm.session.state = SessionState.READY;
    await store.create(warm);
    expect(await remindedOf('mine')).toEqual(['given']);
    await store.update('p', 'moved', (record) => ({
      ...record,
      session: { ...(record.session as NonNullable<typeof record.session>), workerId: 'mine' },
    }));
    expect(await remindedOf('mine')).toEqual(['given', 'moved']);
    expect(await remindedOf('nobody')).toEqual([]);
  });

  test('drops a reminder, but not one that was given again since', async () => {
    await store.create(recordOf('again', { workerId: 'forgetful' }));
    const [first] = await store.remindersOf('forgetful');
    const giving = { ...recordOf('again', { workerId: 'elsewhere' }) };
    await store.update('p', 'again', () => giving);
    await store.update('p', 'again', () => recordOf('again', { workerId: 'forgetful' }));
    if (first !== undefined) await store.dropReminder(first);
    const [second] = await store.remindersOf('forgetful');
    expect(second?.sessionId).toBe('again');
    if (second !== undefined) await store.dropReminder(second);
    expect(await store.remindersOf('forgetful')).toEqual([]);
  });

  test('is sent nothing of the sessions of others when it asks for its own', async () => {
    const others = Array.from({ length: 300 }, (_, i) => store.create(recordOf(`others${i}`, { workerId: 'busy' })));
    await Promise.all(others);
    const own = await open();
    const before = own.connection.stats().inBytes;
    expect(await createNatsSessionStore({ broker: own, onEventLost() {} }).remindersOf('idle')).toEqual([]);
    // One answer about the bucket as a whole.
    expect(own.connection.stats().inBytes - before).toBeLessThan(4_096);
    await own.close();
  });
});
