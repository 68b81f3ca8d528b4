import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { PauseReason, SessionEndReason, SessionSchema, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { createPlaces } from '../../../services/sandbox-worker/sandbox/places.ts';
import { createSandboxes } from '../../../services/sandbox-worker/sandbox/sandboxes.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import type { Hold, SessionEvent } from '../../../services/shared/session-state.ts';
import { log } from '../docker/scratch-host.ts';

/** One sandbox that was taken up, whose engine, deadlines and record write down what is asked of them. */
async function takenUp(engine: { pause?: () => void } = {}) {
  const asked: string[] = [];
  const record = { state: SessionState.READY };
  const sandbox = {
    sessionId: 's',
    file: { containerId: 'c' },
    paused: false,
    executions: {
      freeze: () => void asked.push('freeze'),
      thaw: () => void asked.push('thaw'),
      failReaders: () => void asked.push('failReaders'),
    },
    log: { ready() {}, tell() {} },
    guestReady: async () => {},
    release: async () => void asked.push('release'),
  };
  const sandboxes = createSandboxes({
    engine: {
      pid: async () => undefined,
      resume: async () => void asked.push('resume'),
      remove: async (id: string) => void asked.push(`remove ${id}`),
      async pause() {
        asked.push('pause');
        engine.pause?.();
      },
    },
    maker: { reopen: async () => sandbox, discard: async () => void asked.push('discard') },
    networks: { reattach: async () => {}, detach() {} },
    meter: { sandboxEnded() {} },
    burial: {
      close: async () => {
        throw new Error('the engine is away');
      },
      finish: async (_record: unknown, { type }: { type: string }) => void asked.push(`finish ${type}`),
    },
    records: {
      get: async () => ({ session: { state: record.state } }),
      put: async (_project: string, _id: string, { type }: { type: string }) => void asked.push(type),
    },
    images: { cancel() {}, preparing: () => false },
    holdFor: () => undefined,
    places: createPlaces(10, 100),
    slots: { list: () => ['s'], open: () => ({ load: () => ({ containerId: 'c' }) }) },
    log,
  } as never);
  const session = { sessionId: 's', state: SessionState.READY };
  await sandboxes.adopt(create(SessionRecordSchema, { project: 'p', session }), 'c');
  asked.length = 0;
  return { sandboxes, sandbox, record, asked };
}

/** A worker that makes a session for its record, and one warm sandbox, while its project may have to stand still. */
async function making(holdFor: () => Hold | undefined, image: { find?: () => Promise<void> } = {}) {
  const asked: string[] = [];
  const written: SessionEvent[] = [];
  let taken = 0;
  const sandbox = {
    ...{ project: 'p', sessionId: 's', paused: false },
    file: { containerId: 'c' },
    executions: { freeze: () => void asked.push('freeze') },
    log: { ready() {}, tell() {} },
  };
  const sandboxes = createSandboxes({
    engine: { pause: async () => void asked.push('pause') },
    maker: { open: async () => sandbox, start: async () => {} },
    networks: { check() {}, environment: () => ({}), attach: async () => {}, detach() {} },
    meter: { sandboxMade() {} },
    pool: {
      size: 1,
      known: () => undefined,
      missed() {},
      take() {
        taken += 1;
        throw new Error('a warm sandbox was taken');
      },
    },
    admission: { takesWork: true, checkSandbox() {}, hasShareFor: () => true },
    records: {
      get: async () => ({ session: create(SessionSchema, { sessionId: 's', state: SessionState.CREATING }) }),
      put: async (_project: string, _id: string, event: SessionEvent) => void written.push(event),
    },
    images: {
      prepare: async () => undefined,
      preparing: () => false,
      nameOf: () => 'named',
      of: async () => image.find?.(),
    },
    defaultLimits: { cpus: 1, memoryBytes: 1, diskBytes: 1, pids: 1 },
    holdFor,
    places: createPlaces(10, 100),
    log,
  } as never);
  return { sandboxes, asked, written, taken: () => taken };
}

test('a session that is made while its project stands still is READY and paused in one record', async () => {
  const hold = { pauseReason: PauseReason.GRADING, message: 'a sample is being graded' } as const;
  const { asked, sandboxes, written } = await making(() => hold);
  await sandboxes.create('p', 's');
  expect(asked).toEqual(['freeze', 'pause']);
  expect(written.find(({ type }) => type === 'ready')).toMatchObject({ held: hold });
});

test('a warm sandbox is not given to a project that came to stand still while its image was looked for', async () => {
  let held = false;
  const why = { pauseReason: PauseReason.GRADING, message: 'a sample is being graded' } as const;
  const { sandboxes, taken } = await making(() => (held ? why : undefined), {
    find: async () => {
      held = true;
    },
  });
  const session = { sessionId: 's', image: 'named', state: SessionState.CREATING };
  const record = create(SessionRecordSchema, { project: 'p', session });
  expect(await sandboxes.takeWarm(record)).toBeUndefined();
  expect(taken()).toBe(0);
});

test('no deadline runs from before the engine pauses a session until after it has resumed it', async () => {
  const { sandboxes, asked } = await takenUp();
  await sandboxes.pause('p', 's');
  expect(asked.slice(0, 2)).toEqual(['freeze', 'pause']);
  asked.length = 0;
  await sandboxes.resume('p', 's');
  expect(asked).toEqual(['resume', 'thaw', 'resumed']);
});

test('the deadlines of a session that the engine does not pause run on', async () => {
  const refuse = (): never => {
    throw new Error('no answer');
  };
  const { sandboxes, sandbox, asked } = await takenUp({ pause: refuse });
  await expect(sandboxes.pause('p', 's')).rejects.toThrow('no answer');
  expect(asked).toEqual(['freeze', 'pause', 'thaw']);
  expect(sandbox.paused).toBe(false);
});

test('a worker that stops and keeps its sessions tells every call to come again, and writes no end', async () => {
  const { sandboxes, asked } = await takenUp();
  await sandboxes.handOver(new DomainError('SHUTTING_DOWN', 'the worker is stopping'));
  const stopping = expect.objectContaining({ reason: 'SHUTTING_DOWN' });
  expect(() => sandboxes.find('s')).toThrow(stopping);
  const calls = [sandboxes.pause('p', 's'), sandboxes.resume('p', 's'), sandboxes.refresh('p', 's')];
  const closing = sandboxes.close('p', 's', {
    endReason: SessionEndReason.CLOSED_BY_CALLER,
    message: 'its owner closed it',
  });
  for (const call of [...calls, closing]) await expect(call).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  expect(asked).toEqual(['failReaders', 'release']);
});

test('a close that is repeated after the engine failed archives the log, and records the end once', async () => {
  const { sandboxes, asked } = await takenUp();
  const why = { endReason: SessionEndReason.CLOSED_BY_CALLER, message: 'its owner closed it' };
  await expect(sandboxes.close('p', 's', why)).rejects.toThrow('the engine is away');
  expect(asked).toEqual(['closing']);
  await sandboxes.close('p', 's', why);
  expect(asked).toEqual(['closing', 'closing', 'remove c', 'finish closed']);
});

test('a sandbox that was made for a session that has failed meanwhile is removed', async () => {
  const { sandboxes, sandbox, record, asked } = await takenUp();
  await sandboxes.dropUnrecorded(sandbox as never);
  expect(asked).toEqual([]);
  record.state = SessionState.FAILED;
  await sandboxes.dropUnrecorded(sandbox as never);
  expect(asked).toEqual(['discard']);
  expect(sandboxes.size).toBe(0);
});

test('a call for a session that is being removed is told why it is removed', async () => {
  const { sandboxes } = await takenUp();
  const why = { endReason: SessionEndReason.CLOSED_BY_CALLER, message: 'its owner closed it' };
  const closing = sandboxes.close('p', 's', why).catch(() => {});
  let told: unknown;
  // Until the close has begun the sandbox is still found.
  while (told === undefined) {
    await Promise.resolve();
    told = refusal(() => sandboxes.find('s'));
  }
  expect(told).toMatchObject({ reason: 'SESSION_ENDED', message: 'session s is being closed: its owner closed it' });
  await closing;
});

test('a call for a session that its worker is taking up is to be tried again', async () => {
  const { sandboxes } = await takenUp();
  const session = { sessionId: 'other', state: SessionState.READY };
  const adopting = sandboxes.adopt(create(SessionRecordSchema, { project: 'p', session }), 'c');
  expect(refusal(() => sandboxes.find('other'))).toMatchObject({ reason: 'SESSION_UNREACHABLE' });
  await adopting;
});

function refusal(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
}
