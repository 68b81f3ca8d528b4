import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { openJournal } from '../../../services/sandbox-worker/execution/journal.ts';
import { minKeptBytes } from '../../../services/sandbox-worker/execution/spool.ts';
import { parseCursor } from '../../../services/sandbox-worker/log/log-cursor.ts';
import { createLogReader } from '../../../services/sandbox-worker/log/log-reader.ts';
import { runDirectory } from '../../run.ts';
import { collect, everything, readAll, sha256, type WrittenLog, writeLog } from './written-log.ts';

const directory = mkdtempSync(join(runDirectory(), 'log-'));
afterAll(() => rmSync(directory, { recursive: true }));
const fresh = (): WrittenLog => writeLog(mkdtempSync(join(directory, 'one-')));

/** A session of several executions that take turns, binary output on both streams. */
function writeMany(log: WrittenLog): void {
  for (let number = 1n; number <= 5n; number++) log.start(number);
  for (let turn = 0; turn < 200; turn++) {
    const number = BigInt(1 + Math.floor(Math.random() * 5));
    log.write(number, Math.random() < 0.5 ? 1 : 2, randomBytes(1 + Math.floor(Math.random() * 9_000)));
    if (turn % 7 === 0)
      log.journal.append({ $typeName: 'assay.internal.v1.JournalRecord', number, record: { case: undefined } });
  }
  for (let number = 1n; number <= 5n; number++) log.finish(number);
}

/** The files in a directory that this process holds open. */
function openBelow(path: string): string[] {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return targets.filter((target) => target.startsWith(path));
}

function expectWhole(log: WrittenLog, events: ReturnType<typeof readAll>): void {
  const { data, gaps } = collect(events);
  expect(gaps).toEqual([]);
  for (let number = 1n; number <= 5n; number++) {
    expect(sha256(data(`e${number}.stdout`))).toBe(log.hash(number, 1));
    expect(sha256(data(`e${number}.stderr`))).toBe(log.hash(number, 2));
  }
}

describe('a log that is read', () => {
  test('tells starts, every byte and ends in the order in which they were written', () => {
    const log = fresh();
    log.start(1n);
    log.write(1n, 1, Buffer.from('one'));
    log.start(2n);
    log.write(2n, 2, Buffer.from([0, 255, 10]));
    log.write(1n, 1, Buffer.from('more'));
    log.finish(2n);
    log.finish(1n);
    const events = readAll(log);
    const told = events.map(({ event }) =>
      event.case === 'execution' ? `${event.value.executionId} ${event.value.event.case}` : event.case,
    );
    expect(told).toEqual([
      'e1 started',
      'e1 stdout',
      'e2 started',
      'e2 stderr',
      'e1 stdout',
      'e2 finished',
      'e1 finished',
    ]);
    expect(collect(events).data('e2.stderr')).toEqual(Buffer.from([0, 255, 10]));
    log.journal.close();
  });

  test('goes on after any of its cursors with nothing missing and nothing twice', () => {
    const log = fresh();
    writeMany(log);
    const events = readAll(log);
    expectWhole(log, events);
    for (let count = 0; count < 60; count++) {
      const at = Math.floor(Math.random() * events.length);
      const rest = readAll(log, { cursor: parseCursor(events[at]?.cursor ?? '') });
      expectWhole(log, [...events.slice(0, at + 1), ...rest]);
      expect(rest).toHaveLength(events.length - at - 1);
    }
    log.journal.close();
  });

  test('keeps its cursors when the journal is opened again and written on', () => {
    const log = fresh();
    writeMany(log);
    const events = readAll(log);
    log.journal.close();
    const again = openJournal(log.source.path);
    again.journal.started(1n, 1);
    again.journal.close();
    const middle = Math.floor(events.length / 2);
    const rest = readAll({ ...log, journal: again.journal }, { cursor: parseCursor(events[middle]?.cursor ?? '') });
    const all = [...events.slice(0, middle + 1), ...rest];
    expectWhole(log, all);
    expect(collect(all).words.at(-1)).toBe('e1 started');
  });

  test('tells what the spool no longer keeps as one gap, and kept head and tail', () => {
    const log = fresh();
    log.start(1n);
    const data = randomBytes(minKeptBytes * 3);
    for (let at = 0; at < data.length; at += 100_000) {
      log.write(1n, 1, data.subarray(at, at + 100_000));
      // A write of its own for each piece, as time would make it.
      log.journal.started(9n, 1);
    }
    log.finish(1n);
    const { gaps, data: kept, ends } = collect(readAll(log));
    expect(gaps).toEqual([{ key: 'e1.stdout', from: minKeptBytes / 2, to: data.length - minKeptBytes / 2 }]);
    expect(ends('e1.stdout')).toBe(data.length);
    const expected = Buffer.concat([data.subarray(0, minKeptBytes / 2), data.subarray(-minKeptBytes / 2)]);
    expect(kept('e1.stdout').equals(expected)).toBe(true);
    log.journal.close();
  });

  test('leaves output out, or all but one execution, where that is asked for', () => {
    const log = fresh();
    writeMany(log);
    const without = collect(readAll(log, { withoutOutput: true }));
    expect(without.words.filter((word) => word.endsWith('finished'))).toHaveLength(5);
    expect(without.ends('e1.stdout')).toBe(0);
    const third = collect(readAll(log, { number: 3n }));
    expect(third.words).toEqual(['e3 started', 'e3 finished']);
    expect(sha256(third.data('e3.stdout'))).toBe(log.hash(3n, 1));
    log.journal.close();
  });

  test('waits for output that a restarted worker has not got back yet, and calls it a gap if it never comes', () => {
    const log = fresh();
    log.start(1n);
    log.write(1n, 1, Buffer.from('here'));
    log.journal.output(1n, 1, 4, 9);
    log.finish(1n);
    const execution = log.source.execution(1n);
    if (execution === undefined) throw new Error('expected the execution');
    execution.drained = false;
    expect(collect(readAll(log)).words).toEqual(['e1 started']);
    execution.drained = true;
    const { words, gaps } = collect(readAll(log));
    expect([words, gaps]).toEqual([['e1 started', 'e1 finished'], [{ key: 'e1.stdout', from: 4, to: 9 }]]);
    log.journal.close();
  });

  test('by somebody who leaves in the middle of output is not held open for him', () => {
    const at = mkdtempSync(join(directory, 'one-'));
    const log = writeLog(at);
    log.start(1n);
    log.write(1n, 1, randomBytes(1_000_000));
    log.finish(1n);
    log.source.execution(1n)?.rest();
    log.journal.close();
    const reader = createLogReader(log.source, everything);
    const events = reader.read(log.journal.size);
    events.next();
    events.next();
    expect(openBelow(at)).toHaveLength(2);
    reader.close();
    expect(openBelow(at)).toEqual([]);
  });
});

test.each(['x', '1', '1.2.3', '-1.0', '1.-1', '99999999999999999.0', '1e3.0', '0x1.0', ' 1.0', '\n1.0'])(
  'the cursor %j is refused',
  (text) => {
    expect(() => parseCursor(text)).toThrow(expect.objectContaining({ reason: 'INVALID_CURSOR' }));
  },
);
