import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  type ParsedReport,
  parseReport,
  type ReportFile,
} from '../../../services/sandbox-worker/report/parse-report.ts';
import { defaultReportLimits } from '../../../services/sandbox-worker/report/test-row.ts';

type Format = ReportFile['format'];

const limits = { ...defaultReportLimits, bytes: 1_000_000, tests: 1_000 };
const fixture = (name: string) => readFileSync(new URL(`./fixtures/${name}`, import.meta.url));

function read(format: Format, bytes: Uint8Array | string, names: 'qualified' | 'plain' = 'qualified'): ParsedReport {
  return parseReport({ format, names, bytes: typeof bytes === 'string' ? Buffer.from(bytes) : bytes }, limits);
}

function statuses(report: ParsedReport): Record<string, string> {
  if (!report.ok) throw new Error(report.reason);
  return Object.fromEntries(report.rows.map(({ name, status }) => [name, status]));
}

const reasonOf = (report: ParsedReport): string => (report.ok ? 'no error' : report.reason);

describe('reports that real tools wrote', () => {
  test('pytest: every status, parameters, groups', () => {
    expect(statuses(read('junit', fixture('pytest.xml')))).toEqual({
      'test_sample::test_passes': 'passed',
      'test_sample::test_fails': 'failed',
      'test_sample::test_skipped': 'skipped',
      'test_sample::test_errors': 'error',
      'test_sample::test_parameters[\\xe9\\u2603]': 'passed',
      'test_sample::test_parameters[a b]': 'passed',
      'test_sample.TestGroup::test_inside': 'passed',
      'test_sample::test_expected_failure': 'skipped',
    });
  });

  test('pytest: messages are decoded, durations are milliseconds', () => {
    const report = read('junit', fixture('pytest.xml'));
    const failed = report.ok ? report.rows.find(({ name }) => name === 'test_sample::test_fails') : undefined;
    expect(failed?.message).toContain(`AssertionError: x < y & "z"\nassert 'a<b' == 'a&b'`);
    expect(failed?.durationMs).toBe(2);
  });

  test('node --test as JUnit, names alone', () => {
    expect(statuses(read('junit', fixture('node.xml'), 'plain'))).toEqual({
      passes: 'passed',
      'fails with <markup> & &quot;quotes&quot;': 'failed',
      'is skipped': 'skipped',
      'is to be done': 'failed',
      'has a child': 'passed',
      'has a failing child': 'failed',
      'has a grandchild': 'passed',
    });
  });

  test('node --test as TAP, with subtests and diagnostics', () => {
    const report = read('tap', fixture('node.tap'));
    expect(statuses(report)).toEqual({
      passes: 'passed',
      'fails with <markup> & "quotes"': 'failed',
      'is skipped': 'skipped',
      'is to be done': 'skipped',
      'a group': 'failed',
      'a group > has a child': 'passed',
      'a group > has a failing child': 'failed',
      'a group > deeper': 'passed',
      'a group > deeper > has a grandchild': 'passed',
    });
    const failed = report.ok ? report.rows.find(({ status }) => status === 'failed') : undefined;
    expect(failed?.message).toContain("error: '1 == 2'");
    expect(failed?.durationMs).toBeCloseTo(0.876);
  });

  test('Test::More of Perl: the plan comes first', () => {
    expect(statuses(read('tap', fixture('perl.tap')))).toEqual({
      'perl passes': 'passed',
      'perl fails': 'failed',
      'test 3': 'skipped',
      'perl group': 'passed',
      'perl group > inner one': 'passed',
      'perl group > inner two': 'passed',
    });
  });

  test('vitest as JUnit', () => {
    expect(statuses(read('junit', fixture('vitest.xml')))).toEqual({
      'a.test.ts::outer > passes': 'passed',
      'a.test.ts::outer > fails': 'failed',
      'a.test.ts::outer > skips': 'skipped',
    });
  });

  test('go test -json: a package that does not build and a panic are failures', () => {
    const found = statuses(read('go-test-json', fixture('go-test.jsonl')));
    expect(found).toMatchObject({
      'example.com/sums::TestPasses': 'passed',
      'example.com/sums::TestFails': 'failed',
      'example.com/sums::TestSkips': 'skipped',
      'example.com/sums::TestGroup/inner_one': 'passed',
      'example.com/sums::TestGroup/inner/two': 'failed',
      'example.com/sums::TestZPanics': 'failed',
      'example.com/sums/broken': 'failed',
    });
  });
});

describe('CTRF and rewards', () => {
  const ctrf = (tests: unknown) => JSON.stringify({ results: { tool: { name: 'x' }, summary: {}, tests } });

  test('CTRF statuses, suites and messages', () => {
    const tests = [
      { name: 'a', status: 'passed', duration: 12 },
      { name: 'b', status: 'failed', suite: 'outer', message: 'm', trace: 't' },
      { name: 'c', status: 'pending', suite: ['outer', 'inner'] },
      { name: 'd', status: 'other' },
    ];
    expect(read('ctrf', ctrf(tests))).toMatchObject({
      rows: [
        { name: 'a', status: 'passed', durationMs: 12, message: '' },
        { name: 'outer > b', status: 'failed', message: 'm\nt' },
        { name: 'outer > inner > c', status: 'skipped' },
        { name: 'd', status: 'error' },
      ],
    });
  });

  test.each([
    ['1', 1, 'passed'],
    ['1.0\n', 1, 'passed'],
    ['0.25', 0.25, 'failed'],
    ['{"reward": 0}', 0, 'failed'],
  ])('the reward file %j gives %d', (text, reward, status) => {
    expect(read('reward', text)).toMatchObject({ ok: true, reward, rows: [{ name: 'reward', status }] });
  });

  test.each(['2', '-1', 'NaN', '1e0', '0x1', 'yes', '{"reward": "1"}', '[1]', '1 1', 'Infinity'])(
    'the reward file %j is refused',
    (text) => expect(read('reward', text).ok).toBe(false),
  );
});

describe('hostile JUnit', () => {
  const suite = (inner: string) => `<testsuites><testsuite name="s">${inner}</testsuite></testsuites>`;

  test('a name that passed and failed has failed, whichever comes first', () => {
    const good = '<testcase classname="c" name="n"/>';
    const bad = '<testcase classname="c" name="n"><failure message="m"/></testcase>';
    expect(statuses(read('junit', suite(good + bad)))).toEqual({ 'c::n': 'failed' });
    expect(statuses(read('junit', suite(bad + good)))).toEqual({ 'c::n': 'failed' });
  });

  test('an entity bomb is refused before it is parsed', () => {
    const levels = Array.from({ length: 9 }, (_, i) => `<!ENTITY l${i + 1} "${`&l${i};`.repeat(10)}">`).join('');
    const bomb = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">${levels}]>${suite('<testcase name="&l9;"/>')}`;
    expect(reasonOf(read('junit', bomb))).toContain('document type');
  });

  test('an external entity is refused', () => {
    const text = `<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>${suite('<testcase name="&f;"/>')}`;
    expect(reasonOf(read('junit', text))).toContain('document type');
  });

  test('an entity that nobody defined stays text', () => {
    expect(statuses(read('junit', suite('<testcase name="&bomb;"/>')))).toEqual({ '&bomb;': 'passed' });
  });

  test.each([
    ['a document type after the root began', suite('<!DOCTYPE x [<!ENTITY e "v">]><testcase name="&e;"/>')],
    ['a cut-off report', suite('<testcase name="a"/><testcase name="b">').slice(0, -20)],
    ['two roots', `${suite('')}${suite('')}`],
    ['another root', '<html><testcase name="a"/></html>'],
    ['no markup', 'PASSED'],
    ['nothing', ''],
    ['a test without a name', suite('<testcase/>')],
    ['a name over the limit', suite(`<testcase name="${'n'.repeat(2_000)}"/>`)],
    ['too many tests', suite('<testcase name="n"/>'.repeat(1_001))],
    ['deep nesting', `${'<testsuite>'.repeat(5_000)}${'</testsuite>'.repeat(5_000)}`],
  ])('%s is refused or read without harm', (_, text) => {
    const report = read('junit', text);
    const names = report.ok ? report.rows.map(({ name }) => name) : [];
    expect(names).toEqual(names.filter((name) => name === '&e;'));
  });

  test('bytes that are not UTF-8 are refused', () => {
    const bytes = Buffer.concat([
      Buffer.from('<testsuites><testcase name="'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"/></testsuites>'),
    ]);
    expect(reasonOf(read('junit', bytes))).toBe('not UTF-8');
  });

  test('a report over the limit is refused by its size', () => {
    expect(reasonOf(read('junit', Buffer.alloc(1_000_001, 0x20)))).toContain('1000001 bytes');
  });

  test('attributes named like the insides of JavaScript do no harm', () => {
    const text = suite('<testcase name="a" __proto__="x" constructor="y" toString="z"/><__proto__ polluted="1"/>');
    const report = read('junit', text);
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect(report.ok ? report.rows.length : 1).toBe(1);
  });

  test('markup in CDATA and comments is not a result', () => {
    const text = suite(
      '<testcase name="a"><failure><![CDATA[</failure></testcase><testcase name="b"/>]]></failure></testcase><!-- <testcase name="c"/> -->',
    );
    expect(statuses(read('junit', text))).toEqual({ a: 'failed' });
  });

  test('a status that is only an attribute counts', () => {
    const text = suite(
      '<testcase name="a" status="failed"/><testcase name="b" status="notrun"/><testcase name="c" result="Passed"/>',
    );
    expect(statuses(read('junit', text))).toEqual({ a: 'failed', b: 'skipped', c: 'passed' });
  });

  test('a long message is cut at whole characters', () => {
    const report = read('junit', suite(`<testcase name="a"><failure>${'é☃'.repeat(4_000)}</failure></testcase>`));
    const message = report.ok ? (report.rows[0]?.message ?? '') : '';
    expect(Buffer.byteLength(message)).toBeLessThanOrEqual(limits.messageBytes);
    expect(message).toMatch(/^[é☃]+$/);
  });
});

describe('hostile TAP', () => {
  test.each([
    ['no plan', 'ok 1 - a\n', 'no plan'],
    ['a plan that promises more', '1..2\nok 1 - a\n', 'the plan says 2'],
    ['a plan that promises fewer', '1..1\nok 1 - a\nok 2 - b\n', 'the plan says 1'],
    ['two plans', '1..1\n1..1\nok 1 - a\n', 'two plans'],
    ['a bail-out', '1..1\nok 1 - a\nBail out! disk full\n', 'bailed out: disk full'],
    [
      'subtests without end',
      `${Array.from({ length: 100 }, (_, i) => `${' '.repeat(4 * i)}ok 1 - a`).join('\n')}\n1..1\n`,
      'nested',
    ],
  ])('%s is refused', (_, text, reason) => {
    expect(reasonOf(read('tap', text))).toContain(reason);
  });

  test('a test to be done has not passed', () => {
    expect(statuses(read('tap', '1..2\nok 1 - a # TODO soon\nnot ok 2 - b # todo\n'))).toEqual({
      a: 'skipped',
      b: 'skipped',
    });
  });

  test('an escaped hash is part of the name; okay is not ok', () => {
    expect(statuses(read('tap', '1..1\nokay then\nok 1 - issue \\# SKIP of \\\\ 7\n'))).toEqual({
      'issue # SKIP of \\ 7': 'passed',
    });
  });

  test('a result inside a diagnostic is no result', () => {
    const text = '1..1\nnot ok 1 - a\n  ---\n  message: |\n    ok 1 - a\n    1..9\n  ...\n';
    expect(statuses(read('tap', text))).toEqual({ a: 'failed' });
  });

  test('a text in a diagnostic cannot end it', () => {
    const text = '1..2\nnot ok 1 - a\n  ---\n  found: |\n    ...\n    ok 1 - c\n  ...\nok 2 - b\n';
    expect(statuses(read('tap', text))).toEqual({ a: 'failed', b: 'passed' });
  });

  test('a subtest cannot speak for a test above it', () => {
    const text = '1..2\n    ok 1 - a\n    1..1\nok 1 - group\nnot ok 2 - a\n';
    expect(statuses(read('tap', text))).toEqual({ group: 'passed', 'group > a': 'passed', a: 'failed' });
  });

  test('long runs of blanks are read in linear time', () => {
    const text = `1..1\nok 1 - a${' '.repeat(900_000)}b\n`;
    expect(reasonOf(read('tap', text))).toContain("a test's name");
  });
});

describe('hostile JSON', () => {
  test.each<[string, Format, string, string]>([
    ['deep nesting', 'ctrf', '['.repeat(100_000), 'nested more than'],
    ['a status of its own', 'ctrf', '{"results":{"tests":[{"name":"a","status":"constructor"}]}}', 'the status'],
    ['no list', 'ctrf', '{"results":{"tests":{"length":1}}}', 'a list'],
    ['half a document', 'ctrf', '{"results":{"tests":[', 'not JSON'],
    ['no event', 'go-test-json', 'ok  example.com/sums 0.1s\n', 'no event'],
    ['half an event', 'go-test-json', '{"Action":"pass","Package":"p","Test":"T"', 'not JSON'],
  ])('%s is refused', (_, format, text, reason) => expect(reasonOf(read(format, text))).toContain(reason));

  test('an event named like the insides of JavaScript is no end', () => {
    const events = '{"Action":"constructor","Package":"p","Test":"T"}\n{"Action":"pass","Package":"p","Test":"T"}\n';
    expect(statuses(read('go-test-json', events))).toEqual({ 'p::T': 'passed' });
  });

  test('a go test without an end is an error', () => {
    const run = '{"Action":"run","Package":"p","Test":"T"}\n';
    expect(statuses(read('go-test-json', run))).toEqual({ 'p::T': 'error' });
    const forged = `${run}{"Action":"pass","Package":"p","Test":"T"}\n{"Action":"fail","Package":"p","Test":"T"}\n`;
    expect(statuses(read('go-test-json', forged))).toEqual({ 'p::T': 'failed' });
  });
});

test.each<[Format, string]>([
  ['junit', `<testsuite><\u001b]0;owned\u0007${'x'.repeat(500_000)}\n`],
  ['tap', `Bail out! \u001b[2J\n`],
  ['ctrf', `{"results":{"tests":[{"name":"a","status":"\u009b\u001b[2J"}]}}`],
])('the reason for a refused %s report is short and steers no terminal', (format, text) => {
  const reason = reasonOf(read(format, text));
  expect(reason).not.toMatch(/\p{Cc}/u);
  expect(reason.length).toBeLessThanOrEqual(300);
});
