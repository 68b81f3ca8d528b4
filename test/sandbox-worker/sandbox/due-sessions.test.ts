import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState, TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import { createDueSessions } from '../../../services/sandbox-worker/sandbox/due-sessions.ts';
import { createRecordKeeper } from '../../../services/sandbox-worker/sandbox/record-keeper.ts';
import { projectLabel, sessionLabel } from '../../../services/sandbox-worker/sandbox/sandboxes.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import type { SessionStore } from '../../../services/shared/store/session-store.ts';
import { type NatsProcess, startNats } from '../../shared/store/nats-process.ts';
import { log } from '../docker/scratch-host.ts';

const { CREATING, READY, FAILED } = SessionState;

let nats: NatsProcess;
let broker: Broker;
let store: SessionStore;
let workers = 0;
let workerId = '';

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
  store = createNatsSessionStore({ broker, onEventLost() {} });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});
beforeEach(() => {
  workers += 1;
  workerId = `worker${workers}`;
});

const give = (sessionId: string, state = CREATING, transcriptState = TranscriptState.UNSPECIFIED) => {
  const session = { sessionId: `${sessionId}-${workerId}`, state, workerId, transcriptState };
  return store.create(create(SessionRecordSchema, { project: 'p', session }));
};

/** A worker with these sandboxes, and directories whose descriptions say this project. */
function workerWith({ live = [] as string[], nowMs = (): number => 0 } = {}) {
  const due = createDueSessions({
    sandboxes: {
      get live() {
        return live.map((sessionId) => ({ sessionId: `${sessionId}-${workerId}`, file: {} }));
      },
      holds: (id: string) => live.some((each) => `${each}-${workerId}` === id),
    } as never,
    records: createRecordKeeper(store, workerId, log),
    slots: { list: () => [], open: () => ({ load: () => ({ project: 'p', containerId: '' }) }) } as never,
    now: nowMs,
  });
  const find = async (directories: string[] = [], containers: string[] = []) => {
    const listed = containers.map((name) => {
      const id = `${name}-${workerId}`;
      return { id, state: 'running', createdMs: 0, labels: { [sessionLabel]: id, [projectLabel]: 'p' } };
    });
    const records = await due.find(
      listed,
      directories.map((name) => `${name}-${workerId}`),
    );
    due.leave(records);
    return records.map(({ session }) => session?.sessionId.replace(`-${workerId}`, '')).toSorted();
  };
  return { find };
}

test('a session that was given to a worker by somebody who never told it is found until it has its sandbox', async () => {
  await give('untold');
  const live: string[] = [];
  const { find } = workerWith({ live });
  expect(await find()).toEqual(['untold']);
  expect(await find()).toEqual(['untold']);
  live.push('untold');
  expect(await find()).toEqual([]);
  expect(await store.remindersOf(workerId)).toEqual([]);
});

test('sessions with a container or a directory here are looked up by name, and no others', async () => {
  await give('here', READY);
  await give('waiting', FAILED, TranscriptState.PENDING);
  await give('elsewhere', READY);
  expect(await workerWith().find(['waiting'], ['here'])).toEqual(['here', 'waiting']);
});

test('what could not be done is looked at again, though nothing of it is here', async () => {
  await give('stuck', READY);
  const { find } = workerWith();
  expect(await find([], ['stuck'])).toEqual(['stuck']);
  expect(await find()).toEqual(['stuck']);
});

test('a session that was given to another worker instead is nobody to wait for, but its reminder stays for a while', async () => {
  await give('moved');
  await store.update('p', `moved-${workerId}`, (record) => ({
    ...record,
    session: { ...(record.session as NonNullable<typeof record.session>), workerId: 'other' },
  }));
  let nowMs = 0;
  const { find } = workerWith({ nowMs: () => nowMs });
  expect(await find()).toEqual([]);
  expect(await store.remindersOf(workerId)).toHaveLength(1);
  nowMs = 60_000;
  await find();
  expect(await store.remindersOf(workerId)).toEqual([]);
});
