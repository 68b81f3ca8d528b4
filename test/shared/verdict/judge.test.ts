import { describe, expect, test } from 'vitest';
import { judge } from '../../../services/shared/verdict/judge.ts';
import type { Grading, ReportedStatus, RunEnd, RunOutcome, Verdict } from '../../../services/shared/verdict/outcome.ts';

type Rows = Record<string, ReportedStatus>;

const clean: RunEnd = { kind: 'exited', code: 0 };
const exit = (code: number): RunEnd => ({ kind: 'exited', code });

function run(rows: Rows, change: Partial<RunOutcome> = {}): RunOutcome {
  const tests = Object.entries(rows).map(([name, status]) => ({ name, status, durationMs: 1, message: '' }));
  const roles = ['fail_to_pass', 'pass_to_pass'] as const;
  return { name: 'tests', roles, end: clean, tests, badReports: [], reward: undefined, ...change };
}

const sentinelRun = (rows: Rows = { trap: 'failed' }, end = exit(1)) =>
  run(rows, { name: 'sentinel_fail', roles: ['sentinel_fail'], end });

const allPassed: Rows = { mends: 'passed', 'mends too': 'passed', keeps: 'passed' };

function grading(change: Partial<Grading> = {}): Grading {
  return {
    roles: {
      fail_to_pass: { assurance: 'ISOLATED', tests: ['mends', 'mends too'] },
      pass_to_pass: { assurance: 'ISOLATED', tests: ['keeps'] },
      sentinel_fail: { assurance: 'ISOLATED', tests: ['trap'] },
    },
    reward: 'verdict',
    findings: [],
    prepare: undefined,
    runs: [run(allPassed), sentinelRun()],
    sampleProblem: undefined,
    ...change,
  };
}

interface Row {
  readonly title: string;
  readonly change: Partial<Grading>;
  readonly verdict: Verdict;
  readonly reason?: string;
}

const rows: Row[] = [
  { title: 'every required test passed and the sentinel failed', change: {}, verdict: 'PASSED' },
  {
    title: 'tests that nobody named passed as well',
    change: { runs: [run({ ...allPassed, extra: 'passed' }), sentinelRun()] },
    verdict: 'PASSED',
  },
  {
    title: 'a test that nobody named failed, which explains the exit status',
    change: { runs: [run({ ...allPassed, extra: 'failed' }, { end: exit(1) }), sentinelRun()] },
    verdict: 'PASSED',
  },
  {
    title: 'a fail_to_pass test failed',
    change: { runs: [run({ ...allPassed, mends: 'failed' }, { end: exit(1) }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'fail_to_pass: mends (failed)',
  },
  {
    title: 'a pass_to_pass test failed',
    change: { runs: [run({ ...allPassed, keeps: 'error' }, { end: exit(1) }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'pass_to_pass: keeps (error)',
  },
  {
    title: 'a required test is missing though all others passed',
    change: { runs: [run({ mends: 'passed', keeps: 'passed' }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'fail_to_pass: mends too (missing)',
  },
  {
    title: 'a required test was skipped',
    change: { runs: [run({ ...allPassed, mends: 'skipped' }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'mends (skipped)',
  },
  {
    title: 'the report is missing and the exit status is 0',
    change: { runs: [run({}, { badReports: ['report.xml is missing'] }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'fail_to_pass: mends (missing), mends too (missing)',
  },
  {
    title: 'one of two reports cannot be read, though the other has every test',
    change: { runs: [run(allPassed, { badReports: ['b.tap: no plan'] }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'tests: b.tap: no plan',
  },
  {
    title: 'the exit status contradicts a perfect report',
    change: { runs: [run(allPassed, { end: exit(3) }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'tests: exited with 3 though no reported test failed',
  },
  {
    title: 'the runner died by a signal after a perfect report',
    change: { runs: [run({ ...allPassed, extra: 'failed' }, { end: { kind: 'signaled', signal: 9 } }), sentinelRun()] },
    verdict: 'FAILED',
    reason: 'ended by signal 9',
  },
  {
    title: 'a test both passed and failed',
    change: {
      runs: [{ ...run(allPassed), tests: [...run(allPassed).tests, ...run({ mends: 'failed' }).tests] }, sentinelRun()],
    },
    verdict: 'FAILED',
    reason: 'mends (failed)',
  },
  {
    title: 'a sentinel passed',
    change: { runs: [run(allPassed), sentinelRun({ trap: 'passed' }, clean)] },
    verdict: 'TAMPERED',
    reason: 'trap passed',
  },
  {
    title: 'a sentinel passed and a required test failed',
    change: { runs: [run({ ...allPassed, mends: 'failed' }), sentinelRun({ trap: 'passed' })] },
    verdict: 'TAMPERED',
  },
  {
    title: 'a sentinel is missing',
    change: { runs: [run(allPassed), sentinelRun({})] },
    verdict: 'FAILED',
    reason: 'sentinel trap is missing',
  },
  {
    title: 'a sentinel was skipped',
    change: { runs: [run(allPassed), sentinelRun({ trap: 'skipped' })] },
    verdict: 'FAILED',
    reason: 'sentinel trap is skipped',
  },
  {
    title: 'the run of the sentinels exited with 0 though its report says failed',
    change: { runs: [run(allPassed), sentinelRun({ trap: 'failed' }, clean)] },
    verdict: 'FAILED',
    reason: 'exited with 0 though its sentinels had to fail',
  },
  {
    title: 'the sentinel appears in the run of the tests only',
    change: { runs: [run({ ...allPassed, trap: 'failed' }, { end: exit(1) }), sentinelRun({})] },
    verdict: 'FAILED',
    reason: 'sentinel trap is missing',
  },
  {
    title: 'a required test is reported only by the run of the sentinels',
    change: {
      runs: [run({ keeps: 'passed' }), sentinelRun({ trap: 'failed', mends: 'passed', 'mends too': 'passed' })],
    },
    verdict: 'FAILED',
    reason: 'mends (missing)',
  },
  {
    title: 'a run timed out although its report is perfect',
    change: { runs: [run(allPassed, { end: { kind: 'timed_out' } }), sentinelRun()] },
    verdict: 'TIMED_OUT',
    reason: 'tests: over its time limit',
  },
  {
    title: 'a run was out of memory',
    change: { runs: [run({}, { end: { kind: 'out_of_memory' } }), sentinelRun()] },
    verdict: 'OUT_OF_MEMORY',
  },
  {
    title: 'the submission breaks a rule',
    change: { runs: [], findings: [{ kind: 'invalid', reason: '21000 files, more than 20000' }] },
    verdict: 'INVALID_SUBMISSION',
    reason: '21000 files, more than 20000',
  },
  {
    title: 'the submission breaks a rule and bears traces of tampering',
    change: {
      findings: [
        { kind: 'invalid', reason: 'large' },
        { kind: 'tampering', reason: 'the grader was written to' },
      ],
    },
    verdict: 'TAMPERED',
    reason: 'the grader was written to',
  },
  {
    title: 'the build step failed',
    change: { prepare: exit(2), runs: [] },
    verdict: 'FAILED',
    reason: 'prepare: exited with 2',
  },
  { title: 'the build step timed out', change: { prepare: { kind: 'timed_out' }, runs: [] }, verdict: 'TIMED_OUT' },
  {
    title: 'the build step was out of memory',
    change: { prepare: { kind: 'out_of_memory' }, runs: [] },
    verdict: 'OUT_OF_MEMORY',
  },
  {
    title: 'the image does not build',
    change: { sampleProblem: 'the image does not build', runs: [] },
    verdict: 'SAMPLE_BROKEN',
  },
  {
    title: 'the container was lost, whatever the reports say',
    change: {
      runs: [run({ mends: 'failed' }, { end: { kind: 'lost', reason: 'the engine restarted' } }), sentinelRun()],
    },
    verdict: 'INFRA_ERROR',
    reason: 'tests: the engine restarted',
  },
  {
    title: 'the container was lost during the build step',
    change: { prepare: { kind: 'lost', reason: 'no guest' }, runs: [] },
    verdict: 'INFRA_ERROR',
  },
];

describe('the verdict', () => {
  test.each(rows)('$verdict: $title', ({ change, verdict, reason }) => {
    const judged = judge(grading(change));
    expect(judged.verdict).toBe(verdict);
    expect(judged.isSuccess).toBe(verdict === 'PASSED');
    expect(judged.trainable).toBe(verdict !== 'INFRA_ERROR' && verdict !== 'SAMPLE_BROKEN');
    expect(judged.reasons.length).toBeGreaterThan(0);
    if (reason !== undefined) expect(judged.reasons.join('\n')).toContain(reason);
  });
});

describe('what a verdict carries', () => {
  test('rows have roles, and sentinels do not count', () => {
    const judged = judge(grading({ runs: [run({ ...allPassed, extra: 'skipped' }), sentinelRun()] }));
    expect(judged.tests.map(({ name, role, status }) => [name, role, status])).toEqual([
      ['mends', 'fail_to_pass', 'passed'],
      ['mends too', 'fail_to_pass', 'passed'],
      ['keeps', 'pass_to_pass', 'passed'],
      ['trap', 'sentinel_fail', 'failed'],
      ['extra', undefined, 'skipped'],
    ]);
    expect(judged.counts).toEqual({ total: 4, passed: 3, failed: 0, skipped: 1 });
  });

  test('the assurance is the weakest of those that the verdict needed; a sentinel needs none', () => {
    const { roles } = grading();
    const weaker = { assurance: 'IN_PROCESS', tests: ['keeps'] } as const;
    expect(judge(grading()).assurance).toBe('ISOLATED');
    expect(judge(grading({ roles: { ...roles, pass_to_pass: weaker } })).assurance).toBe('IN_PROCESS');
    expect(
      judge(grading({ roles: { ...roles, sentinel_fail: { assurance: 'SHARED', tests: ['trap'] } } })).assurance,
    ).toBe('ISOLATED');
  });

  test('a run with less assurance cannot speak for one with more', () => {
    const isolated = run({ mends: 'failed', 'mends too': 'passed' }, { roles: ['fail_to_pass'], end: exit(1) });
    const forged = run({ ...allPassed }, { name: 'pass_to_pass', roles: ['pass_to_pass'] });
    const judged = judge(grading({ runs: [isolated, forged, sentinelRun()] }));
    expect(judged.verdict).toBe('FAILED');
    expect(judged.tests.find(({ name }) => name === 'mends')?.status).toBe('failed');
  });

  test.each([
    ['verdict', allPassed, undefined, 1],
    ['verdict', { ...allPassed, mends: 'failed' }, undefined, 0],
    ['fraction', { ...allPassed, mends: 'failed' }, undefined, 2 / 3],
    ['fraction', allPassed, undefined, 1],
    ['report', allPassed, 0.4, 0.4],
    ['report', allPassed, undefined, 0],
  ] as const)('a reward from %s', (reward, tests, said, expected) => {
    const runs = [run(tests, { reward: said }), sentinelRun()];
    expect(judge(grading({ reward, runs })).reward).toBeCloseTo(expected);
  });

  test('part of a reward is not given for a run that was cut short or tampered with', () => {
    const cut = [run(allPassed, { end: { kind: 'timed_out' }, reward: 1 }), sentinelRun()];
    expect(judge(grading({ reward: 'fraction', runs: cut })).reward).toBe(0);
    const forged = [run(allPassed, { reward: 1 }), sentinelRun({ trap: 'passed' })];
    expect(judge(grading({ reward: 'report', runs: forged })).reward).toBe(0);
  });

  test('no reward is taken from a run that contradicts itself, whatever it says', () => {
    const signaled = run(allPassed, { end: { kind: 'signaled', signal: 9 }, reward: 1 });
    const silent = sentinelRun({});
    for (const runs of [
      [signaled, sentinelRun()],
      [run(allPassed, { end: exit(3), reward: 1 }), sentinelRun()],
      [run(allPassed, { badReports: ['junit.xml: no report'], reward: 1 }), sentinelRun()],
      [run(allPassed, { reward: 1 }), silent],
    ]) {
      expect(judge(grading({ reward: 'report', runs }))).toMatchObject({ verdict: 'FAILED', reward: 0 });
      expect(judge(grading({ reward: 'fraction', runs }))).toMatchObject({ verdict: 'FAILED', reward: 0 });
    }
  });

  test('a report that gives all to a failure is not believed to the last, and one of the sentinels not at all', () => {
    const failed = run({ ...allPassed, mends: 'failed' }, { end: exit(1), reward: 1 });
    const reward = judge(grading({ reward: 'report', runs: [failed, sentinelRun()] })).reward;
    expect(reward).toBeGreaterThan(0.9);
    expect(reward).toBeLessThan(1);
    const passed = [run(allPassed, { reward: 0.8 }), { ...sentinelRun(), reward: 0 }];
    expect(judge(grading({ reward: 'report', runs: passed })).reward).toBe(0.8);
  });

  test('a full fraction is not given to a failure', () => {
    const runs = [run(allPassed, { end: exit(3) }), sentinelRun()];
    expect(judge(grading({ reward: 'fraction', runs })).reward).toBeLessThan(1);
  });

  test('a sample with one role needs no other', () => {
    const roles = { fail_to_pass: { assurance: 'ISOLATED', tests: ['mends'] } } as const;
    expect(judge(grading({ roles, runs: [run({ mends: 'passed' }, { roles: ['fail_to_pass'] })] })).verdict).toBe(
      'PASSED',
    );
  });

  test('many failures are named up to five', () => {
    const tests = Array.from({ length: 9 }, (_, index) => `t${index}`);
    const roles = { fail_to_pass: { assurance: 'ISOLATED', tests } } as const;
    expect(judge(grading({ roles, runs: [run({}, { roles: ['fail_to_pass'] })] })).reasons[0]).toMatch(
      /t4 \(missing\) and 4 more$/,
    );
  });
});

test('reports made to be compared each with each are judged in no time', () => {
  const names = Array.from({ length: 100_000 }, (_, index) => `test ${index}`);
  const all = (status: ReportedStatus): Rows => Object.fromEntries(names.map((name) => [name, status]));
  const told = [...run(all('failed')).tests, ...run(all('error')).tests];
  const began = performance.now();
  const { verdict } = judge(grading({ runs: [run({}, { tests: told, end: exit(1) }), sentinelRun()] }));
  expect(verdict).toBe('FAILED');
  // Each with each it takes minutes, during which the worker does nothing else.
  expect(performance.now() - began).toBeLessThan(20_000);
});
