import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { openJournal, type StoredRecord } from '../../../services/sandbox-worker/execution/journal.ts';
import { runDirectory } from '../../run.ts';

const disk = vi.hoisted(() => ({ full: false }));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const writeSync = (...args: Parameters<typeof fs.writeSync>): number => {
    if (disk.full) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    return fs.writeSync(...args);
  };
  return { ...fs, writeSync };
});

const directory = mkdtempSync(join(runDirectory(), 'journal-'));
afterAll(() => rmSync(directory, { recursive: true }));

function accepted(number: bigint, command: string): JournalRecord {
  const request = { executionId: `e${number}`, program: { case: 'command' as const, value: command } };
  return create(JournalRecordSchema, { number, record: { case: 'accepted', value: { request } } });
}

function numbersOf(records: Iterable<StoredRecord>): bigint[] {
  return Array.from(records, ({ entry }) => entry.number);
}

function written(path: string): bigint[] {
  const { records, journal } = openJournal(path);
  const numbers = numbersOf(records);
  journal.close();
  return numbers;
}

describe('a journal', () => {
  test('gives back what was appended, over several openings', () => {
    const path = join(directory, 'whole');
    const first = openJournal(path);
    first.journal.append(accepted(1n, 'x'.repeat(300_000)));
    first.journal.close();
    const second = openJournal(path);
    second.journal.append(accepted(2n, 'two'));
    second.journal.close();
    expect(written(path)).toEqual([1n, 2n]);
  });

  test('drops a record that was cut short at any byte and goes on after the last whole one', () => {
    const path = join(directory, 'torn');
    const { journal } = openJournal(path);
    journal.append(accepted(1n, 'kept'));
    const whole = readFileSync(path).length;
    journal.append(accepted(2n, 'torn'));
    journal.close();
    const all = readFileSync(path);
    for (let cut = whole; cut < all.length; cut++) {
      truncateSync(path, whole);
      appendFileSync(path, all.subarray(whole, cut));
      const again = openJournal(path);
      expect(numbersOf(again.records)).toEqual([1n]);
      again.journal.append(accepted(3n, 'next'));
      again.journal.close();
      expect(written(path)).toEqual([1n, 3n]);
    }
  });
});

describe('a journal on a full disk', () => {
  let path: string;
  let files = 0;
  const failed = vi.fn();
  const full = vi.fn<() => boolean>();

  beforeEach(() => {
    vi.useFakeTimers();
    path = join(directory, `full-${files++}`);
    full.mockReset().mockReturnValue(false);
    failed.mockReset();
    disk.full = true;
  });
  afterEach(() => {
    disk.full = false;
    vi.useRealTimers();
  });

  test('keeps what was not written, and tells nobody that it was', () => {
    const { journal } = openJournal(path, { full, failed });
    const told = vi.fn();
    journal.appendSoon(accepted(1n, 'first'));
    journal.whenWritten(told);
    expect(() => journal.flush()).toThrow('ENOSPC');
    expect(told).not.toHaveBeenCalled();
    disk.full = false;
    journal.append(accepted(2n, 'second'));
    expect(told).toHaveBeenCalledOnce();
    journal.close();
    expect(written(path)).toEqual([1n, 2n]);
  });

  test('does not write later what it refused', () => {
    const { journal } = openJournal(path, { full, failed });
    journal.appendSoon(accepted(1n, 'kept'));
    expect(() => journal.append(accepted(2n, 'refused'))).toThrow('ENOSPC');
    expect(failed).toHaveBeenCalledOnce();
    disk.full = false;
    vi.advanceTimersByTime(1_000);
    expect(written(path)).toEqual([1n]);
    journal.append(accepted(3n, 'next'));
    journal.close();
    expect(written(path)).toEqual([1n, 3n]);
  });

  test('takes what has happened all the same, and writes it in its place when it can', () => {
    const { journal } = openJournal(path, { full, failed });
    journal.note(accepted(1n, 'happened'));
    expect(failed).toHaveBeenCalledOnce();
    disk.full = false;
    journal.note(accepted(2n, 'at once'));
    expect(written(path)).toEqual([1n, 2n]);
    journal.close();
  });

  test('tries again what nobody waits for, and says so', () => {
    const { journal } = openJournal(path, { full, failed });
    journal.appendSoon(accepted(1n, 'later'));
    vi.advanceTimersByTime(20);
    expect(full).toHaveBeenCalledOnce();
    expect(failed).toHaveBeenCalledOnce();
    disk.full = false;
    vi.advanceTimersByTime(1_000);
    expect(written(path)).toEqual([1n]);
    journal.close();
  });

  test('goes on at once where output was given up for it, which it records too', () => {
    const { journal } = openJournal(path, { full, failed });
    full.mockImplementation(() => {
      disk.full = false;
      journal.append(accepted(2n, 'given up'));
      return true;
    });
    journal.append(accepted(1n, 'first'));
    journal.close();
    expect(written(path)).toEqual([1n, 2n]);
  });
});
