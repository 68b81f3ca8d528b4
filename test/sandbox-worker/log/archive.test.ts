import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import { type ArchiveDeps, createArchive, type EndedSession } from '../../../services/sandbox-worker/log/archive.ts';
import type { CompleteLog } from '../../../services/sandbox-worker/log/transcript.ts';
import { createLog } from '../../../services/shared/log.ts';
import type { TranscriptStore } from '../../../services/shared/store/transcript-store.ts';
import { runDirectory } from '../../run.ts';
import { type Made, writeLog } from './written-log.ts';

const directory = mkdtempSync(join(runDirectory(), 'archive-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** A log of about fifty events. */
function longLog(): CompleteLog {
  const log = writeLog(mkdtempSync(join(directory, 'one-')));
  log.start(1n);
  for (let turn = 0; turn < 50; turn++) {
    log.write(1n, turn % 2 === 0 ? 1 : 2, randomBytes(100));
    log.journal.flush();
  }
  log.finish(1n);
  const { spool } = log.source.execution(1n) as Made;
  return { ...log.source, size: log.journal.size, executionCount: 1, heldBytes: () => [spool(1).held, spool(2).held] };
}

/** Takes all that it is given; `taking` is awaited before. */
function storeIn(kept: Map<string, number>, taking: () => Promise<void> | undefined = () => undefined) {
  const store: TranscriptStore = {
    async put(project, sessionId, pieces) {
      await taking();
      let bytes = 0;
      for await (const piece of pieces) bytes += piece.length;
      kept.set(`${project}/${sessionId}`, bytes);
    },
    get: async () => undefined,
  };
  return store;
}

const ended = (more: Partial<EndedSession> = {}): EndedSession => {
  const log = longLog();
  return { project: 'p', sessionId: 's', endedMs: Date.now() - 3_600_000, open: () => log, ...more };
};

function archiveWith(more: Partial<ArchiveDeps>) {
  return createArchive({
    store: storeIn(new Map()),
    limitBytes: 2 ** 20,
    patienceMs: 0,
    shares: { turn: () => undefined },
    log: createLog('test', 'silent'),
    ...more,
  });
}

/** A project that waits a second for each of its turns. */
function slowTurns() {
  let nowMs = 0;
  const turn = async (): Promise<void> => {
    nowMs += 1_000;
  };
  return { shares: { turn }, now: () => nowMs };
}

test('a transcript whose project waits long for its turns is stored all the same', async () => {
  const kept = new Map<string, number>();
  const turns = slowTurns();
  const archive = archiveWith({ store: storeIn(kept), ...turns });
  expect(await archive.keep(ended())).toEqual({ state: TranscriptState.STORED, message: '' });
  expect(turns.now()).toBeGreaterThan(20_000);
  expect(kept.get('p/s')).toBeGreaterThan(5_000);
});

test('whoever ends a session waits for its transcript no longer than was said', async () => {
  const archive = archiveWith({ ...slowTurns(), patienceMs: 7_200_000 });
  expect(await archive.keep(ended(), 20_000)).toEqual({
    state: TranscriptState.PENDING,
    message: expect.stringContaining('took longer than the 20 s that an ending session waits'),
  });
});

test('a few transcripts are written at one time, and a log is opened only when its turn comes', async () => {
  const kept = new Map<string, number>();
  const gate = Promise.withResolvers<void>();
  const archive = archiveWith({ store: storeIn(kept, () => gate.promise) });
  let open = 0;
  const log = longLog();
  const opened = () => {
    open += 1;
    return log;
  };
  const of = (project: string, sessionId: string) => archive.keep(ended({ project, sessionId, open: opened }));
  const keeping = Array.from({ length: 30 }, (_, index) => of('p', `s${index}`));
  await expect.poll(() => open).toBe(6);
  // Another project need not wait for those of the first.
  keeping.push(of('q', 'first'));
  await expect.poll(() => open).toBe(7);
  gate.resolve();
  const outcomes = await Promise.all(keeping);
  expect(outcomes.every(({ state }) => state === TranscriptState.STORED)).toBe(true);
  expect(kept.size).toBe(31);
});

test('one that waits in line behind a store that takes nothing gives up in time, and is not written later', async () => {
  const kept = new Map<string, number>();
  const gate = Promise.withResolvers<void>();
  const archive = archiveWith({ store: storeIn(kept, () => gate.promise), patienceMs: 7_200_000 });
  const blocking = Array.from({ length: 6 }, (_, index) => archive.keep(ended({ sessionId: `s${index}` })));
  expect(await archive.keep(ended({ sessionId: 'late' }), 20)).toMatchObject({ state: TranscriptState.PENDING });
  gate.resolve();
  await Promise.all(blocking);
  expect(kept.size).toBe(6);
});

test('a worker that stops leaves what nobody waits for to the next start, however late it is', async () => {
  const gate = Promise.withResolvers<void>();
  const archive = archiveWith({ store: storeIn(new Map(), () => gate.promise) });
  const keeping = archive.keep(ended());
  const closing = archive.keep(ended({ sessionId: 'closing' }), 20_000);
  archive.stop();
  gate.resolve();
  expect(await keeping).toMatchObject({ state: TranscriptState.PENDING });
  expect(await closing).toMatchObject({ state: TranscriptState.STORED });
});

test('a session whose log is gone has a transcript only if one was stored before', async () => {
  const nothing = await archiveWith({}).keep(ended({ open: () => undefined }));
  expect(nothing).toMatchObject({ state: TranscriptState.MISSING, message: expect.stringContaining('lost the log') });
});
