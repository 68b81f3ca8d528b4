import { describe, expect, test } from 'vitest';
import { parseReport } from '../../services/sandbox-worker/report/parse-report.ts';
import { defaultReportLimits } from '../../services/sandbox-worker/report/test-row.ts';
import { gradeInContainer } from './grading-container.ts';

const program = '#!/bin/sh\n[ $# = 2 ] || exit 2\necho $(($1 + $2))\n';

const python = `
import os, sys
sys.path.insert(0, os.environ["ASSAY_LIB"])
from assay_isolated import main, run, test

@test("adds")
def _():
    result = run(["sh", "add.sh", 2, 3])
    assert result.ok and result.stdout == b"5\\n", result

@test("fails with <markup> & \\x01")
def _():
    assert run(["sh", "add.sh", 2, 2]).stdout == b"5\\n", "<&\\x01\\ud800"

@test("refuses one number")
def _():
    result = run(["sh", "add.sh", 2])
    assert result.code == 2 and result.end == "exited"

@test("sees input, a time limit and a cap")
def _():
    assert run(["cat"], input="héllo").stdout == "héllo".encode()
    assert run(["sleep", "100"], timeout=0.3).end == "timed-out"
    assert run(["yes"], max_output=8).end == "output-limit"
    assert run(["sh", "-c", "kill -9 $$"]).signal == 9
    assert run(["/nonexistent"]).end == "not-started"
    assert run(["sh", "-c", "echo $V"], env={"V": "x y"}, cwd="/tmp").stdout == b"x y\\n"

@test("breaks")
def _():
    raise ValueError("no")

@test("waits for nobody")
async def _():
    pass

main()
`;

const javascript = `
import assert from 'node:assert';
const { finish, run, test } = await import(process.env.ASSAY_LIB + '/assay-isolated.mjs');
test('adds', () => assert.equal(run(['sh', 'add.sh', 2, 3]).text, '5\\n'));
test('fails # SKIP not', () => assert.equal(run(['sh', 'add.sh', 2, 2]).text, '5\\n'));
test('refuses one number', () => assert.equal(run(['sh', 'add.sh', 2]).code, 2));
test('sees input, a time limit and a cap', () => {
  assert.equal(run(['cat'], { input: 'héllo' }).text, 'héllo');
  assert.equal(run(['sleep', '100'], { timeout: 0.3 }).end, 'timed-out');
  assert.equal(run(['yes'], { maxOutput: 8 }).end, 'output-limit');
  assert.equal(run(['sh', '-c', 'kill -9 $$']).signal, 9);
});
test('breaks', () => { throw new Error('no'); });
test('waits for nobody', async () => {});
finish();
`;

const shell = `
. "$ASSAY_LIB/assay-isolated.sh"
expect_stdout adds 5 sh add.sh 2 3
expect_stdout 'fails # SKIP not' 5 sh -c 'printf "\\377ok 1 - no\\n"; printf "\\376" >&2'
expect_status 'refuses one number' 2 sh add.sh 2
if [ "$(echo héllo | isolated cat)" = héllo ]; then pass 'sees input, a time limit and a cap'; else fail 'sees input, a time limit and a cap'; fi
ISOLATED_TIMEOUT=0.3 isolated sleep 100
case $isolated_end in timed-out) fail breaks "it took too long" ;; *) pass breaks ;; esac
finish
`;

const statuses = { adds: 'passed', 'refuses one number': 'passed', 'sees input, a time limit and a cap': 'passed' };

describe('the library for ISOLATED tests', () => {
  test.each([
    [
      'Python',
      'test.py',
      python,
      'python3 -I test.py',
      'junit.xml',
      { 'fails with <markup> & \ufffd': 'failed', breaks: 'error', 'waits for nobody': 'error' },
    ],
    [
      'JavaScript',
      'test.mjs',
      javascript,
      'node test.mjs',
      'report.tap',
      { 'fails # SKIP not': 'failed', breaks: 'failed', 'waits for nobody': 'failed' },
    ],
    ['sh', 'test.sh', shell, 'sh test.sh', 'report.tap', { 'fails # SKIP not': 'failed', breaks: 'failed' }],
  ])(
    'in %s reaches programs of the agent and reports what they did',
    async (_, name, content, command, report, more) => {
      const graded = await gradeInContainer({
        files: [
          { path: `/grader/tests/${name}`, content },
          { path: '/workspace/add.sh', content: program, owner: 'agent', mode: 0o755 },
        ],
        command,
      });
      expect(graded.stderr).not.toMatch(/Permission|not found/);
      const bytes = graded.reports.get(report) ?? Buffer.alloc(0);
      const parsed = parseReport(
        { format: report.endsWith('.tap') ? 'tap' : 'junit', names: 'qualified', bytes },
        defaultReportLimits,
      );
      const rows = parsed.ok ? parsed.rows : [];
      expect(Object.fromEntries(rows.map((row) => [row.name, row.status]))).toEqual({ ...statuses, ...more });
      expect(graded.code).toBe(1);
    },
  );

  test('a test whose spawner is gone breaks instead of passing', async () => {
    const content = python.replace('main()', '');
    const graded = await gradeInContainer({
      files: [
        { path: '/grader/tests/test.py', content: `${content}\nrun(["pkill", "-9", "-x", "isolated"])\nmain()\n` },
      ],
      command: 'python3 -I test.py',
    });
    expect(graded.reports.get('junit.xml')?.toString()).not.toMatch(
      /<testcase name="adds" time='[\d.]+'>\n<\/testcase>/,
    );
    expect(graded.code).toBe(1);
  });
});
