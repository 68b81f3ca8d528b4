import { afterEach, expect, test } from 'vitest';
import { createReportReader, type ReportReader } from '../../../services/sandbox-worker/report/report-reader.ts';
import { defaultReportLimits } from '../../../services/sandbox-worker/report/test-row.ts';

let reader: ReportReader;
afterEach(() => reader.close());

const tap = (text: string) => ({ format: 'tap', names: 'plain', bytes: Buffer.from(text) }) as const;

test('reports are read in a thread', async () => {
  reader = createReportReader();
  const [first, second] = await Promise.all([
    reader.read(tap('1..1\nok 1 - a\n')),
    reader.read(tap('1..1\nnot ok 1 - b\n')),
  ]);
  expect(first).toMatchObject({ ok: true, rows: [{ name: 'a', status: 'passed' }] });
  expect(second).toMatchObject({ ok: true, rows: [{ name: 'b', status: 'failed' }] });
});

test('a report that takes too long costs its own verdict only', async () => {
  reader = createReportReader({ timeoutMs: 1 });
  const slow = await reader.read(tap(`1..1\n${'# nothing\n'.repeat(1_600_000)}ok 1 - a\n`));
  expect(slow).toEqual({ ok: false, reason: 'could not be read: it took more than 1 ms' });
});

test('a report that takes long holds up no other', async () => {
  reader = createReportReader({ threads: 2 });
  const quick = () => reader.read(tap('1..1\nok 1 - a\n'));
  await Promise.all([quick(), quick()]);
  const order: string[] = [];
  const long = reader.read(tap(`1..1\n${'# nothing\n'.repeat(1_600_000)}ok 1 - a\n`)).then(() => order.push('long'));
  await quick().then(() => order.push('quick'));
  await long;
  expect(order).toEqual(['quick', 'long']);
});

test('a report that needs too much memory costs its own verdict, and the next one is read', async () => {
  reader = createReportReader({ heapMebibytes: 16, timeoutMs: 60_000 });
  const many = '<testcase name="n"/>'.repeat(300_000);
  const bytes = Buffer.from(`<testsuites>${many}</testsuites>`);
  const large = await reader.read({ format: 'junit', names: 'plain', bytes });
  expect(large).toMatchObject({ ok: false });
  expect(await reader.read(tap('1..1\nok 1 - a\n'))).toMatchObject({ ok: true });
});

test('a report over the byte limit is not even handed over', async () => {
  reader = createReportReader({ limits: { ...defaultReportLimits, bytes: 10 } });
  expect(await reader.read(tap('1..1\nok 1 - a\n'))).toEqual({ ok: false, reason: '14 bytes, more than 10' });
});
