import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { SessionEvent } from '../../../gen/assay/v1/session_pb.js';
import { minKeptBytes } from '../../../services/sandbox-worker/execution/spool.ts';
import { fairShare, writeTranscript } from '../../../services/sandbox-worker/log/transcript.ts';
import { parsePlace } from '../../../services/sessions/transcript/log-place.ts';
import { readTranscript } from '../../../services/sessions/transcript/transcript-reader.ts';
import { runDirectory } from '../../run.ts';
import { collect, type Made, readAll, type WrittenLog, writeLog } from './written-log.ts';

const directory = mkdtempSync(join(runDirectory(), 'transcript-'));
afterAll(() => rmSync(directory, { recursive: true }));
const fresh = (): WrittenLog => writeLog(mkdtempSync(join(directory, 'one-')));

function completeOf(log: WrittenLog, numbers: bigint[]) {
  const executions = numbers.map((number) => log.source.execution(number) as Made);
  const heldBytes = () => executions.flatMap(({ spool }) => [spool(1).held, spool(2).held]).filter((held) => held > 0);
  return { ...log.source, size: log.journal.size, executionCount: executions.length, heldBytes };
}

async function archive(log: WrittenLog, numbers: bigint[], limitBytes: number): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(writeTranscript(completeOf(log, numbers), limitBytes)));
}

async function* pieces(data: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += 50_000) yield data.subarray(at, at + 50_000);
}

const everything = { withoutOutput: false, executionId: '' };
const read = (data: Buffer, cursor: string, selection = everything): Promise<SessionEvent[]> =>
  Array.fromAsync(readTranscript(pieces(data), parsePlace(cursor), selection));

describe('a transcript', () => {
  test('goes on after every cursor that was given out live, though it keeps less', async () => {
    const log = fresh();
    log.start(1n);
    log.start(2n);
    for (let turn = 0; turn < 120; turn++) {
      log.write(1n, 1, randomBytes(60_000 + turn));
      if (turn % 3 === 0) log.write(1n, 2, randomBytes(50));
      if (turn % 5 === 0) log.write(2n, 1, randomBytes(300));
      if (turn % 4 === 0) log.journal.flush();
    }
    log.finish(1n);
    log.finish(2n);
    const live = readAll(log);
    const stored = await archive(log, [1n, 2n], 400_000);
    expect(stored.length).toBeLessThan(800_000);
    const whole = collect(await read(stored, '0.0'));
    expect(whole.ends('e1.stdout')).toBe(120 * 60_000 + (119 * 120) / 2);
    expect(whole.gaps.map(({ key }) => key)).toContain('e1.stdout');
    expect(collect(live).data('e2.stdout').equals(whole.data('e2.stdout'))).toBe(true);
    for (const [index, { cursor }] of live.entries()) {
      const rest = await read(stored, cursor);
      const { words, ends } = collect([...live.slice(0, index + 1), ...rest]);
      expect(words).toEqual(collect(live).words);
      for (const key of ['e1.stdout', 'e1.stderr', 'e2.stdout']) expect(ends(key)).toBe(whole.ends(key));
    }
    log.journal.close();
  });

  test('joins the gaps of a stream that follow each other, and tells one execution where one is wanted', async () => {
    const log = fresh();
    log.start(1n);
    for (let count = 0; count < 60; count++) {
      log.write(1n, 1, randomBytes(minKeptBytes / 10));
      log.journal.flush();
    }
    log.start(2n);
    log.write(2n, 2, Buffer.from('two'));
    log.finish(2n);
    log.finish(1n);
    const stored = await archive(log, [1n, 2n], 1_000_000);
    const { gaps } = collect(await read(stored, '0.0'));
    expect(gaps).toHaveLength(1);
    const two = collect(await read(stored, '0.0', { withoutOutput: false, executionId: 'e2' }));
    expect([two.words, String(two.data('e2.stderr'))]).toEqual([['e2 started', 'e2 finished'], 'two']);
    const quiet = await read(stored, '0.0', { withoutOutput: true, executionId: '' });
    expect(quiet).toHaveLength(4);
    log.journal.close();
  });

  test('shortens what was run, and in the end itself, before it becomes too large', async () => {
    const log = fresh();
    const numbers: bigint[] = [];
    for (let number = 1n; number <= 800n; number++) {
      log.start(number, `${'é'.repeat(1_000)}`);
      log.finish(number);
      numbers.push(number);
    }
    const stored = await archive(log, numbers, 65_536);
    expect(stored.length).toBeLessThan(2 * 65_536 + 400);
    const events = await read(stored, '0.0');
    const [first] = events;
    if (first?.event.case !== 'execution' || first.event.value.event.case !== 'started') throw new Error('no start');
    expect(first.event.value.event.value.summary).toBe('é'.repeat(64));
    expect(events.at(-1)?.event).toMatchObject({
      case: 'missing',
      value: { message: expect.stringContaining('the transcript ends here') },
    });
    log.journal.close();
  });
});

test.each([
  [[], 100, Number.POSITIVE_INFINITY],
  [[10, 20, 30], 60, Number.POSITIVE_INFINITY],
  [[10, 20, 100], 60, 30],
  [[100, 100, 100], 60, 20],
  [[1, 1_000, 1_000, 1], 100, 49],
])('streams of %j bytes that share %i get %i at most', (sizes, limit, share) => {
  expect(fairShare(sizes, limit)).toBe(share);
  const kept = sizes.reduce((sum, size) => sum + Math.min(size, share), 0);
  expect(kept).toBeLessThanOrEqual(limit);
});

test('every event of an archive takes a turn, also one that is not wanted', async () => {
  const log = fresh();
  log.start(1n);
  log.finish(1n);
  log.start(2n);
  log.finish(2n);
  const data = await archive(log, [1n, 2n], 1_048_576);
  let turns = 0;
  const selection = { withoutOutput: false, executionId: 'e2' };
  const turn = () => {
    turns++;
    return undefined;
  };
  const events = await Array.fromAsync(
    readTranscript(pieces(data), { position: 0, offset: 0 }, selection, () => {}, turn),
  );
  expect([events.length, turns]).toEqual([2, 4]);
  log.journal.close();
});
