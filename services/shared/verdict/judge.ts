import { weakest } from '../sample/run-plan.ts';
import type { RoleName } from '../sample/verification-schema.ts';
import { gradeTests } from './grade-tests.ts';
import type { Counts, GradedTest, Grading, Judgement, RunEnd, RunOutcome, Verdict } from './outcome.ts';

const needed: readonly RoleName[] = ['fail_to_pass', 'pass_to_pass'];
/** How many tests a sentence names. */
const namedTests = 5;

/** Makes the verdict. The order of the questions matters: what is not known about a submission is never held against it. */
export function judge(grading: Grading): Judgement {
  const tests = gradeTests(grading);
  const steps = [
    infrastructure,
    brokenSample,
    tampering,
    invalidSubmission,
    preparation,
    resourceEnds,
    failures,
  ] as const;
  for (const step of steps) {
    const found = step(grading, tests);
    if (found !== undefined) return conclude(grading, tests, found.verdict, found.reasons);
  }
  return conclude(grading, tests, 'PASSED', ['every required test passed']);
}

interface Found {
  readonly verdict: Verdict;
  readonly reasons: readonly string[];
}

type Step = (grading: Grading, tests: readonly GradedTest[]) => Found | undefined;

const found = (verdict: Verdict, reasons: readonly string[]): Found | undefined =>
  reasons.length === 0 ? undefined : { verdict, reasons };

const infrastructure: Step = ({ prepare, runs }) => {
  const lost = (name: string, end: RunEnd | undefined) => (end?.kind === 'lost' ? [`${name}: ${end.reason}`] : []);
  return found('INFRA_ERROR', [...lost('prepare', prepare), ...runs.flatMap(({ name, end }) => lost(name, end))]);
};

const brokenSample: Step = ({ sampleProblem }) =>
  found('SAMPLE_BROKEN', sampleProblem === undefined ? [] : [sampleProblem]);

/** A sentinel that passes, or a trace that was found, outweighs every other outcome. */
const tampering: Step = ({ findings }, tests) =>
  found('TAMPERED', [
    ...findings.filter(({ kind }) => kind === 'tampering').map(({ reason }) => reason),
    ...tests
      .filter(({ role, status }) => role === 'sentinel_fail' && status === 'passed')
      .map(({ name }) => `${name} passed, which no honest submission can bring about`),
  ]);

const invalidSubmission: Step = ({ findings }) =>
  found(
    'INVALID_SUBMISSION',
    findings.filter(({ kind }) => kind === 'invalid').map(({ reason }) => reason),
  );

const preparation: Step = ({ prepare }) => {
  if (prepare === undefined || prepare.kind === 'lost') return undefined;
  if (prepare.kind === 'timed_out') return found('TIMED_OUT', ['prepare: over its time limit']);
  if (prepare.kind === 'out_of_memory') return found('OUT_OF_MEMORY', ['prepare: over the memory limit']);
  return isClean(prepare) ? undefined : found('FAILED', [`prepare: ${describeEnd(prepare)}`]);
};

const resourceEnds: Step = ({ runs }) => {
  const named = (kind: RunEnd['kind'], text: string): string[] =>
    runs.filter(({ end }) => end.kind === kind).map(({ name }) => `${name}: ${text}`);
  return (
    found('OUT_OF_MEMORY', named('out_of_memory', 'over the memory limit')) ??
    found('TIMED_OUT', named('timed_out', 'over its time limit'))
  );
};

const failures: Step = (grading, tests) =>
  found('FAILED', [...needed.flatMap((role) => failedTests(role, tests)), ...contradictions(grading, tests)]);

/** What makes a run unworthy of belief, beside tests that failed: no report, a status that does not fit, silent sentinels. */
function contradictions(grading: Grading, tests: readonly GradedTest[]): string[] {
  const failed = new Set(tests.filter(hasFailed).map(identityOf));
  return [...grading.runs.flatMap((run) => failedRun(run, failed)), ...silentSentinels(grading, tests)];
}

function failedTests(role: RoleName, tests: readonly GradedTest[]): string[] {
  const bad = tests.filter((test) => test.role === role && test.status !== 'passed');
  if (bad.length === 0) return [];
  const shown = bad.slice(0, namedTests).map(({ name, status }) => `${name} (${status})`);
  const rest = bad.length > namedTests ? ` and ${bad.length - namedTests} more` : '';
  return [`${role}: ${shown.join(', ')}${rest}`];
}

/** The exit status has to agree with the report, and the report has to be there. `failed`: what the result says failed. */
function failedRun(run: RunOutcome, failed: ReadonlySet<string>): string[] {
  const reasons = run.badReports.map((reason) => `${run.name}: ${reason}`);
  if (run.roles.includes('sentinel_fail')) return reasons;
  if (isClean(run.end)) return reasons;
  // A test that nobody requires may fail, an added one for example: then the status is no contradiction.
  const explained = run.end.kind === 'exited' && run.tests.some((test) => failed.has(identityOf(test)));
  return explained ? reasons : [...reasons, `${run.name}: ${describeEnd(run.end)} though no reported test failed`];
}

function hasFailed({ status }: GradedTest): boolean {
  return status === 'failed' || status === 'error';
}

function identityOf({ name, status }: Pick<GradedTest, 'name' | 'status'>): string {
  return `${status} ${name}`;
}

/** A sentinel that is in no report, or was skipped, has not failed as it must. */
function silentSentinels({ runs }: Grading, tests: readonly GradedTest[]): string[] {
  const silent = tests.filter(
    ({ role, status }) => role === 'sentinel_fail' && (status === 'missing' || status === 'skipped'),
  );
  const reasons = silent.map(({ name, status }) => `sentinel ${name} is ${status}; it had to run and to fail`);
  const clean = runs.filter(({ roles, end }) => roles.includes('sentinel_fail') && isClean(end));
  return [...reasons, ...clean.map(({ name }) => `${name}: exited with 0 though its sentinels had to fail`)];
}

function conclude(
  grading: Grading,
  tests: readonly GradedTest[],
  verdict: Verdict,
  reasons: readonly string[],
): Judgement {
  const trainable = verdict !== 'INFRA_ERROR' && verdict !== 'SAMPLE_BROKEN';
  return {
    verdict,
    isSuccess: verdict === 'PASSED',
    assurance: weakest(needed.flatMap((name) => grading.roles[name]?.assurance ?? [])),
    trainable,
    reward: rewardOf(grading, tests, verdict),
    counts: countTests(tests),
    tests,
    reasons,
  };
}

/** Part of a reward is given only for work that was graded to its end, and on the word of runs that can be believed. */
function rewardOf(grading: Grading, tests: readonly GradedTest[], verdict: Verdict): number {
  const { reward, runs } = grading;
  if (verdict !== 'PASSED' && (verdict !== 'FAILED' || contradictions(grading, tests).length > 0)) return 0;
  if (reward === 'verdict') return verdict === 'PASSED' ? 1 : 0;
  const most = verdict === 'PASSED' ? 1 : 0.999;
  if (reward === 'report') {
    // A sentinel that fails as it must has earned nothing, and takes nothing away.
    const rewards = runs.filter(({ roles }) => !roles.includes('sentinel_fail')).flatMap((run) => run.reward ?? []);
    return rewards.length === 0 ? 0 : Math.min(most, ...rewards);
  }
  const required = tests.filter(({ role }) => role !== undefined && needed.includes(role));
  const passed = required.filter(({ status }) => status === 'passed').length;
  return verdict === 'PASSED' ? 1 : required.length === 0 ? 0 : Math.min(passed / required.length, most);
}

/** Sentinels are traps, not tests: they do not count. */
function countTests(tests: readonly GradedTest[]): Counts {
  const counted = tests.filter(({ role }) => role !== 'sentinel_fail');
  const count = (...statuses: GradedTest['status'][]): number =>
    counted.filter(({ status }) => statuses.includes(status)).length;
  const failed = count('failed', 'error', 'missing');
  return { total: counted.length, passed: count('passed'), failed, skipped: count('skipped') };
}

function isClean(end: RunEnd): boolean {
  return end.kind === 'exited' && end.code === 0;
}

function describeEnd(end: RunEnd): string {
  if (end.kind === 'exited') return `exited with ${end.code}`;
  if (end.kind === 'signaled') return `ended by signal ${end.signal}`;
  return end.kind.replaceAll('_', ' ');
}
