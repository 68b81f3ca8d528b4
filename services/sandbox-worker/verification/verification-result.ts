import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { Assurance, TestRole } from '../../../gen/assay/v1/types_pb.js';
import {
  GradingStep,
  ReportFormat,
  TestOutcome,
  type TestResultSchema,
  Verdict,
  type VerificationResult,
  VerificationResultSchema,
} from '../../../gen/assay/v1/verification_pb.js';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { testRoles } from '../../shared/sample/test-role.ts';
import { type reportFormats, roleNames } from '../../shared/sample/verification-schema.ts';
import type { GradedTest } from '../../shared/verdict/outcome.ts';
import type { Graded, GradingStepName, KeptOutput } from '../grading/grader.ts';

/** A client takes 4 MiB in one message unless it is told otherwise: the whole result stays below that. */
const testBytes = 1_536 * 1_024;
const streamBytes = 768 * 1_024;
const messageBytes = 8_192;
const rowBytes = 32;
const reasonCharacters = 4_000;
const noteCount = 100;

const outcomes: Readonly<Record<GradedTest['status'], TestOutcome>> = {
  passed: TestOutcome.PASSED,
  failed: TestOutcome.FAILED,
  skipped: TestOutcome.SKIPPED,
  error: TestOutcome.ERROR,
  missing: TestOutcome.MISSING,
};

const steps: Readonly<Record<GradingStepName, GradingStep>> = {
  manifest: GradingStep.MANIFEST,
  copy: GradingStep.COPY,
  create: GradingStep.CREATE,
  apply: GradingStep.APPLY,
  start: GradingStep.START,
  connect: GradingStep.CONNECT,
  spawner: GradingStep.SPAWNER,
  prepare: GradingStep.PREPARE,
  run: GradingStep.RUN,
  kill: GradingStep.KILL,
  read: GradingStep.READ,
};

const formats: Readonly<Record<(typeof reportFormats)[number], ReportFormat>> = {
  junit: ReportFormat.JUNIT,
  tap: ReportFormat.TAP,
  'go-test-json': ReportFormat.GO_TEST_JSON,
  ctrf: ReportFormat.CTRF,
  reward: ReportFormat.REWARD,
  'exit-status': ReportFormat.EXIT_STATUS,
};

/** What a grading found, as it is told. */
export function resultOf({ judgement, runs, ...graded }: Graded, { sample }: SampleFolder): VerificationResult {
  const { counts, tests: all } = judgement;
  const { told, omitted } = withinBytes(all);
  const counted = told.filter(({ role }) => role !== 'sentinel_fail');
  const named = (...statuses: GradedTest['status'][]): string[] =>
    counted.filter(({ status }) => statuses.includes(status)).map(({ name }) => name);
  const stdout = cut(graded.stdout);
  const stderr = cut(graded.stderr);
  const ranMs = runs.reduce((sum, { command }) => sum + (command?.durationMs ?? 0), 0);
  return create(VerificationResultSchema, {
    testCount: counts.total,
    passedCount: counts.passed,
    failedCount: counts.failed,
    skippedCount: counts.skipped,
    passedTests: named('passed'),
    failedTests: named('failed', 'error', 'missing'),
    skippedTests: named('skipped'),
    stdout: stdout.bytes,
    stderr: stderr.bytes,
    stdoutOmittedBytes: BigInt(stdout.omitted),
    stderrOmittedBytes: BigInt(stderr.omitted),
    testDuration: durationFromMs(Math.round(ranMs)),
    reportFormats: formatsOf(sample),
    verdict: Verdict[judgement.verdict],
    reason: judgement.reasons.join('; ').slice(0, reasonCharacters),
    assurance: Assurance[judgement.assurance],
    trainable: judgement.trainable,
    reward: judgement.reward,
    tests: told.map(rowOf),
    omittedTestCount: omitted,
    roles: roleNames.flatMap((role) => {
      const found = sample.verification[role];
      return found === undefined ? [] : [{ role: testRoles[role], assurance: Assurance[found.assurance] }];
    }),
    steps: graded.steps.map(({ name, ms }) => ({ step: steps[name], duration: durationFromMs(Math.round(ms)) })),
    cpuTime: durationFromMs(Math.round(graded.cpuMs)),
    peakMemoryBytes: BigInt(Math.round(graded.peakMemoryBytes)),
    notes: graded.notes.slice(0, noteCount).map((note) => note.slice(0, reasonCharacters)),
  });
}

/** What is said of a verification that no attempt could finish. */
export function infrastructureResult(reason: string): VerificationResult {
  const verdict = Verdict.INFRA_ERROR;
  return create(VerificationResultSchema, { verdict, reason: reason.slice(0, reasonCharacters), trainable: false });
}

/** The result without its lists and its output, for the record. */
export function summaryOf(result: VerificationResult): VerificationResult {
  const nothing = new Uint8Array();
  const bare = {
    passedTests: [],
    failedTests: [],
    skippedTests: [],
    tests: [],
    notes: [],
    stdout: nothing,
    stderr: nothing,
  };
  return create(VerificationResultSchema, { ...result, ...bare });
}

/** Required tests come first in the list, so what is left out is what matters least. */
function withinBytes(tests: readonly GradedTest[]): { told: GradedTest[]; omitted: number } {
  const told: GradedTest[] = [];
  let left = testBytes;
  for (const test of tests) {
    // A name is in the row and in one of the three lists.
    left -= 2 * Buffer.byteLength(test.name) + Math.min(Buffer.byteLength(test.message), messageBytes) + rowBytes;
    if (left < 0) break;
    told.push(test);
  }
  return { told, omitted: tests.length - told.length };
}

function rowOf({ name, status, role, durationMs, message }: GradedTest): MessageInitShape<typeof TestResultSchema> {
  return {
    name,
    role: role === undefined ? TestRole.UNSPECIFIED : testRoles[role],
    outcome: outcomes[status],
    message: Buffer.from(message).subarray(0, messageBytes).toString(),
    ...(durationMs === undefined ? {} : { duration: durationFromMs(Math.round(durationMs)) }),
  };
}

/** The grading kept the beginning and the end of each command's output; of all of them together the same is kept. */
function cut({ bytes, totalBytes }: KeptOutput): { bytes: Uint8Array; omitted: number } {
  if (bytes.length <= streamBytes) return { bytes, omitted: Math.max(0, totalBytes - bytes.length) };
  const half = streamBytes / 2;
  const mark = Buffer.from('\n[bytes left out]\n');
  const kept = Buffer.concat([bytes.subarray(0, half), mark, bytes.subarray(bytes.length - half)]);
  return { bytes: kept, omitted: totalBytes - 2 * half };
}

function formatsOf({ verification }: SampleFolder['sample']): ReportFormat[] {
  const reports = [verification.reports, ...roleNames.map((role) => verification[role]?.reports ?? [])].flat();
  return [...new Set(reports.map(({ format }) => formats[format]))];
}
