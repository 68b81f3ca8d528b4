// ISOLATED tests in JavaScript: every program of the submission runs as another user, which sees inputs and no answers.
//
//   const { finish, run, test } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);
//   test('adds two numbers', () => {
//     const result = run(['node', 'add.js', '2', '3']);
//     assert.equal(result.text, '5\n');
//   });
//   finish();
//
// Never import anything from the workspace: what is imported can change this very process.
import { spawnSync } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const { env } = process;
const isolated = env.ASSAY_ISOLATED ?? '/run/assay/isolated';
const reports = env.ASSAY_REPORTS ?? '.';
const workspace = env.ASSAY_WORKSPACE ?? '/workspace';

/**
 * Runs a program as the agent's user. `end` is exited, signaled, timed-out, output-limit, not-started or lost; `code` and
 * `signal` are numbers where they apply. Throws only where no program could be asked for.
 */
export function run(argv, options = {}) {
  const { input = '', timeout = 10, cwd = workspace, maxOutput = 1 << 20 } = options;
  const variables = Object.entries(options.env ?? {}).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const limits = ['--timeout', String(timeout), '--max-output', String(maxOutput), '--cwd', cwd, '--status-fd', '3'];
  const ran = spawnSync(isolated, ['run', ...limits, ...variables, '--', ...argv.map(String)], {
    input,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    maxBuffer: maxOutput + 65536,
  });
  const status = String(ran.output?.[3] ?? '').trim();
  const [end = ''] = status.split(' ', 1);
  const detail = status.slice(end.length + 1);
  if (end === '' || end === 'unavailable') {
    throw new Error(`no program of the agent could be run: ${detail || ran.error?.message || ran.stderr}`);
  }
  return {
    end,
    detail,
    code: end === 'exited' ? Number(detail) : undefined,
    signal: end === 'signaled' ? Number(detail) : undefined,
    stdout: ran.stdout,
    stderr: ran.stderr,
    text: ran.stdout.toString(),
  };
}

const results = [];

/** Runs a test at once; it fails if the function throws, or is asynchronous: nobody would wait for it. */
export function test(name, body) {
  const started = performance.now();
  let problem;
  try {
    if (typeof body()?.then === 'function')
      throw new Error('an asynchronous test; expected a function that is done when it returns');
  } catch (error) {
    problem = String(error?.stack ?? error);
  }
  results.push({ name, problem, ms: performance.now() - started });
  console.log(`${problem === undefined ? 'ok' : 'not ok'} - ${name}`);
  if (problem !== undefined) console.error(problem);
}

/** Writes a TAP report for the grader and sets the exit code. */
export function finish(report = 'report.tap') {
  const lines = ['TAP version 13', `1..${results.length}`];
  for (const [index, { name, problem, ms }] of results.entries()) {
    const escaped = name.replace(/[\\#]/g, '\\$&').replace(/\s+/g, ' ');
    lines.push(`${problem === undefined ? 'ok' : 'not ok'} ${index + 1} - ${escaped}`);
    lines.push('  ---', `  duration_ms: ${ms.toFixed(3)}`);
    if (problem !== undefined) lines.push(...problem.split('\n').map((line) => `  # ${line}`));
    lines.push('  ...');
  }
  const path = join(reports, report);
  // The report appears whole or not at all.
  writeFileSync(`${path}.part`, `${lines.join('\n')}\n`);
  renameSync(`${path}.part`, path);
  process.exitCode = results.some(({ problem }) => problem !== undefined) ? 1 : 0;
}
