import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterAll, describe, expect, test } from 'vitest';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/worker/v1/worker_pb.js';
import { openJournal } from '../../../services/sandbox-worker/execution/journal.ts';
import { runDirectory } from '../../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'journal-'));
afterAll(() => rmSync(directory, { recursive: true }));

function accepted(number: bigint, command: string): JournalRecord {
  const request = { executionId: `e${number}`, program: { case: 'command' as const, value: command } };
  return create(JournalRecordSchema, { number, record: { case: 'accepted', value: { request } } });
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
    const { records, journal } = openJournal(path);
    journal.close();
    expect(records.map(({ number }) => number)).toEqual([1n, 2n]);
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
      expect(again.records.map(({ number }) => number)).toEqual([1n]);
      again.journal.append(accepted(3n, 'next'));
      again.journal.close();
      const last = openJournal(path);
      last.journal.close();
      expect(last.records.map(({ number }) => number)).toEqual([1n, 3n]);
    }
  });
});
