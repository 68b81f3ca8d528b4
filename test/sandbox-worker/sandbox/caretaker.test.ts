import { create } from '@bufbuild/protobuf';
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { expect, test, vi } from 'vitest';
import { SandboxFileSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { ContainerSummary } from '../../../services/sandbox-worker/docker/engine.ts';
import { createCaretaker } from '../../../services/sandbox-worker/sandbox/caretaker.ts';
import type { Sandbox } from '../../../services/sandbox-worker/sandbox/sandbox.ts';
import { sessionLabel } from '../../../services/sandbox-worker/sandbox/sandboxes.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import type { EndCause } from '../../../services/shared/session-state.ts';
import { log } from '../docker/scratch-host.ts';

function record(sessionId: string, state: SessionState): SessionRecord {
  return create(SessionRecordSchema, { project: 'p', session: { sessionId, state } });
}

function container(id: string, state = 'exited'): ContainerSummary {
  return { id, labels: { [sessionLabel]: id }, state, createdMs: 0 };
}

function sandbox(sessionId: string, paused = false, still = false) {
  const file = create(SandboxFileSchema, { sessionId, containerId: sessionId });
  return { sessionId, paused, still, file, executions: { running: 1 }, expireMs: Number.POSITIVE_INFINITY };
}

/** A worker with these records, containers and directories, where nothing that is called `stuck` can be removed or made. */
function workerWith({
  records = [] as SessionRecord[],
  containers = [] as ContainerSummary[],
  slots = [] as string[],
  live = [] as Pick<Sandbox, 'sessionId' | 'file' | 'paused' | 'still'>[],
}) {
  const done: string[] = [];
  const attempt = async (what: string, name: string): Promise<void> => {
    if (name.startsWith('stuck')) throw new DomainError('NO_CAPACITY', `${name} is stuck`);
    done.push(`${what} ${name}`);
  };
  const engine = {
    list: async () => containers,
    remove: (id: string) => attempt('removed', id),
    isStarted: async (id: string) => id !== 'half',
    watch: (_installation: string, _died: unknown, _connected: () => void) => ({ close() {} }),
  };
  const caretaker = createCaretaker({
    engine: engine as never,
    sandboxes: {
      live,
      doubtful: [],
      holds: (id: string) => live.some(({ sessionId }) => sessionId === id),
      fail: (_project: string, id: string) => attempt('failed', id),
      close: (_project: string, id: string, { endReason }: EndCause) =>
        attempt(`closed ${SessionEndReason[endReason]}`, id),
      refresh: async (_project: string, id: string) => {
        const session = records.find((each) => each.session?.sessionId === id)?.session;
        const found = live.find(({ sessionId }) => sessionId === id) as Sandbox;
        if (session?.expireTime !== undefined) found.expireMs = timestampMs(session.expireTime);
      },
      wake: ({ sessionId }: Sandbox) => attempt('woke', sessionId),
      create: (_project: string, id: string) => attempt('created', id),
      finish: ({ session }: SessionRecord) => attempt('finished', session?.sessionId ?? ''),
    } as never,
    pool: { holds: () => false, fill() {}, died() {}, waiting: [] } as never,
    records: {
      mine: async () => records,
      reminders: async () => [],
      owes: () => false,
      settle: async () => {},
    } as never,
    slots: {
      list: () => slots,
      open: (name: string) => ({
        remove() {
          if (name.startsWith('stuck')) throw new Error('device or resource busy');
          done.push(`emptied ${name}`);
        },
      }),
    } as never,
    installation: 'i',
    log,
  });
  return { caretaker, engine, done };
}

test.each([
  ['that is closing', SessionState.CLOSING, 'finished', [container('stuck'), container('other')]],
  ['whose container is dead', SessionState.READY, 'finished', [container('stuck'), container('other')]],
  ['for which there is no room', SessionState.CREATING, 'created', []],
])('a session %s and that is stuck holds up neither the others nor the worker', async (_which, state, next, theirs) => {
  const records = [record('stuck', state), record('other', state)];
  const { caretaker, done } = workerWith({ records, containers: [...theirs, container('nobodys')], slots: ['left'] });
  await caretaker.reconcile();
  expect(done).toEqual(expect.arrayContaining([`${next} other`, 'removed nobodys', 'emptied left']));
  expect(done.join()).not.toContain('stuck');
});

test('a session whose container was only half started when its worker died is made again', async () => {
  const records = [record('half', SessionState.CREATING)];
  const { caretaker, done } = workerWith({ records, containers: [container('half', 'running')] });
  await caretaker.reconcile();
  expect(done.slice(0, 2)).toEqual(['removed half', 'created half']);
});

test('a container that no session owns and that is stuck holds up neither the others nor the worker', async () => {
  const containers = [container('stuck'), container('nobodys')];
  const { caretaker, done } = workerWith({ containers, slots: ['stuck too', 'left'] });
  await caretaker.reconcile();
  expect(done).toEqual(expect.arrayContaining(['removed nobodys', 'emptied left']));
});

test('sweeps that come while one takes long do not pile up', async () => {
  vi.useFakeTimers();
  try {
    const { caretaker, engine } = workerWith({});
    const gate = Promise.withResolvers<void>();
    const listed = vi.spyOn(engine, 'list').mockImplementation(async () => {
      await gate.promise;
      return [];
    });
    caretaker.start();
    await vi.advanceTimersByTimeAsync(60_000);
    gate.resolve();
    await caretaker.stop();
    expect(listed).toHaveBeenCalledTimes(1);
  } finally {
    vi.useRealTimers();
  }
});

test('a sandbox that is paused in the engine and for nobody is resumed', async () => {
  const live = [
    sandbox('stuck'),
    sandbox('forgotten'),
    sandbox('paused', true),
    sandbox('still', false, true),
    sandbox('running'),
  ];
  const containers = live.map(({ sessionId }) => container(sessionId, sessionId === 'running' ? 'running' : 'paused'));
  const records = live.map(({ sessionId }) => record(sessionId, SessionState.READY));
  const { caretaker, done } = workerWith({ records, containers, live });
  await caretaker.reconcile();
  expect(done).toEqual(['woke forgotten']);
});

test('a sandbox that died before deaths were told is found, and one that is made meanwhile is not taken for it', async () => {
  const live = [sandbox('alive'), sandbox('dead')];
  const { caretaker, engine, done } = workerWith({ live });
  vi.spyOn(engine, 'list').mockImplementation(async () => {
    live.push(sandbox('young'));
    return [container('alive', 'running'), container('dead', 'exited')];
  });
  vi.spyOn(engine, 'watch').mockImplementation((_installation, _died, connected) => {
    connected();
    return { close() {} };
  });
  caretaker.start();
  await expect.poll(() => done).toEqual(['failed dead']);
  await caretaker.stop();
});

test('a container that takes long to go is waited for a while, asked to go once, and its session ends when it is gone', async () => {
  vi.useFakeTimers();
  try {
    const records = [record('slow', SessionState.CLOSING), record('other', SessionState.CLOSING)];
    const containers = [container('slow'), container('other')];
    const { caretaker, engine, done } = workerWith({ records, containers });
    const { remove } = engine;
    const gone = Promise.withResolvers<void>();
    const removing = vi.spyOn(engine, 'remove').mockImplementation((id) => (id === 'slow' ? gone.promise : remove(id)));
    for (const _ of ['at the start', 'in a sweep']) {
      const reconciled = caretaker.reconcile();
      await vi.advanceTimersByTimeAsync(20_000);
      await reconciled;
    }
    expect(removing.mock.calls.filter(([id]) => id === 'slow')).toHaveLength(1);
    expect(done).toContain('finished other');
    expect(done).not.toContain('finished slow');
    gone.resolve();
    await caretaker.reconcile();
    expect(done).toContain('finished slow');
  } finally {
    vi.useRealTimers();
  }
});

test('a session whose time was extended without a word to its worker is not closed, and others are', async () => {
  const endMs = Date.now();
  const ended = (sessionId: string) => Object.assign(sandbox(sessionId), { project: 'p', expireMs: endMs });
  const live = [ended('extended'), ended('over'), ended('unknown')];
  const records = [record('extended', SessionState.READY), record('over', SessionState.READY)];
  for (const { session } of records) {
    if (session === undefined) continue;
    session.expireTime = timestampFromMs(session.sessionId === 'extended' ? endMs + 60_000 : endMs);
  }
  const { caretaker, done } = workerWith({ records, live });
  caretaker.start();
  await expect.poll(() => done).toHaveLength(2);
  await caretaker.stop();
  expect(done).toEqual(['closed TTL_EXPIRED over', 'closed TTL_EXPIRED unknown']);
  expect(live[0]?.expireMs).toBe(endMs + 60_000);
});
