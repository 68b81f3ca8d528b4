import { Assurance, TestRole } from '../../gen/assay/v1/types_pb.js';
import {
  GradingPhase,
  GradingStep,
  ReportFormat,
  TestOutcome,
  Verdict,
  VerificationState,
  type VerificationResult as WireResult,
  type TestResult as WireTest,
  type Verification as WireVerification,
} from '../../gen/assay/v1/verification_pb.js';
import type { AssuranceName } from './samples.ts';
import { toDate, toMilliseconds } from './time.ts';

/** Where a verification is in its life, as the server names it. */
export type VerificationStateName = Exclude<keyof typeof VerificationState, 'UNSPECIFIED'>;
export type GradingPhaseName = Exclude<keyof typeof GradingPhase, 'UNSPECIFIED'>;
export type GradingStepName = Exclude<keyof typeof GradingStep, 'UNSPECIFIED'>;
export type ReportFormatName = Exclude<keyof typeof ReportFormat, 'UNSPECIFIED'>;
export type TestRoleName = Exclude<keyof typeof TestRole, 'UNSPECIFIED'>;
export type VerdictName = Exclude<keyof typeof Verdict, 'UNSPECIFIED'>;
export type TestOutcomeName = Exclude<keyof typeof TestOutcome, 'UNSPECIFIED'>;

export interface TestResultInfo {
  readonly name: string;
  /** Undefined for a test that the sample does not name. */
  readonly role: TestRoleName | undefined;
  readonly outcome: TestOutcomeName;
  readonly durationMs: number | undefined;
  readonly message: string;
}

/** What a grading found. Names, tests, output, notes and what it used are empty without the grader scope. */
export interface VerificationResult {
  readonly verdict: VerdictName;
  /** Why, in a sentence. */
  readonly reason: string;
  readonly assurance: AssuranceName | undefined;
  /** The level of each role; `assurance` is the weakest that the verdict needed. */
  readonly roles: readonly { readonly role: TestRoleName | undefined; readonly assurance: AssuranceName | undefined }[];
  /** Whether the outcome is the agent's doing, so that it may be learnt from. */
  readonly trainable: boolean;
  /** From 0 to 1. */
  readonly reward: number;
  readonly testCount: number;
  readonly passedCount: number;
  readonly failedCount: number;
  readonly skippedCount: number;
  readonly passedTests: readonly string[];
  readonly failedTests: readonly string[];
  readonly skippedTests: readonly string[];
  readonly tests: readonly TestResultInfo[];
  /** Tests that are counted and not listed, because there were too many. */
  readonly omittedTestCount: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly stdoutOmittedBytes: number;
  readonly stderrOmittedBytes: number;
  /** Of the runs of the tests together; in whole seconds without the grader scope. */
  readonly testDurationMs: number;
  readonly reportFormats: readonly ReportFormatName[];
  /** In order. */
  readonly steps: readonly { readonly step: GradingStepName; readonly durationMs: number }[];
  readonly cpuTimeMs: number;
  readonly peakMemoryBytes: number;
  readonly notes: readonly string[];
  /** Whether it is the verdict of an earlier verification of the same submission. */
  readonly reused: boolean;
}

/** A verification as the server described it at one moment. */
export interface VerificationInfo {
  readonly id: string;
  readonly sessionId: string;
  readonly state: VerificationStateName;
  /** What its worker is doing. Undefined unless STARTING or RUNNING. */
  readonly phase: GradingPhaseName | undefined;
  readonly sample: { readonly dataset: string; readonly id: string; readonly version: string };
  readonly digests: {
    readonly submission: string;
    readonly sample: string;
    readonly verification: string;
    readonly image: string;
    /** Of the session's whole file system; empty unless the sample has a run at FORK. */
    readonly fileSystem: string;
  };
  readonly submission: {
    readonly sizeBytes: number;
    readonly fileCount: number;
    readonly deletionCount: number;
    /** How long the session stood still. */
    readonly pauseMs: number;
  };
  readonly assurance: AssuranceName | undefined;
  readonly createTime: Date | undefined;
  readonly startTime: Date | undefined;
  readonly endTime: Date | undefined;
  readonly attemptCount: number;
  readonly cancelRequested: boolean;
  /** The verification whose verdict this one has. Empty: it was graded itself. */
  readonly reusedFrom: string;
  /** The verification whose submission is graded again. Empty: none. */
  readonly regradeOf: string;
  readonly workerId: string;
  readonly message: string;
  /** Undefined until it has ended, and where it was cancelled. */
  readonly result: VerificationResult | undefined;
}

/** Whether nothing about it changes any more. */
export function hasEnded({ state }: VerificationInfo): boolean {
  return state === 'COMPLETED' || state === 'ERROR' || state === 'CANCELLED';
}

export function toVerificationInfo(wire: WireVerification): VerificationInfo {
  const { digests, submission } = wire;
  return {
    id: wire.verificationId,
    sessionId: wire.sessionId,
    state: VerificationState[wire.state] as VerificationStateName,
    phase: wire.phase === GradingPhase.UNSPECIFIED ? undefined : (GradingPhase[wire.phase] as GradingPhaseName),
    sample: {
      dataset: wire.sample?.datasetId ?? '',
      id: wire.sample?.sampleId ?? '',
      version: wire.sample?.version ?? '',
    },
    digests: {
      submission: digests?.submission ?? '',
      sample: digests?.sample ?? '',
      verification: digests?.verification ?? '',
      image: digests?.image ?? '',
      fileSystem: digests?.fileSystem ?? '',
    },
    submission: {
      sizeBytes: Number(submission?.sizeBytes ?? 0),
      fileCount: submission?.fileCount ?? 0,
      deletionCount: submission?.deletionCount ?? 0,
      pauseMs: toMilliseconds(submission?.pauseDuration),
    },
    assurance: assuranceOf(wire.assurance),
    createTime: toDate(wire.createTime),
    startTime: toDate(wire.startTime),
    endTime: toDate(wire.endTime),
    attemptCount: wire.attemptCount,
    cancelRequested: wire.cancelRequested,
    reusedFrom: wire.reusedFrom,
    regradeOf: wire.regradeOf,
    workerId: wire.workerId,
    message: wire.message,
    result: wire.result && toResult(wire.result),
  };
}

function toResult(wire: WireResult): VerificationResult {
  const { reason, trainable, reward, testCount, passedCount, failedCount, skippedCount, notes, reused } = wire;
  return {
    ...{ reason, trainable, reward, testCount, passedCount, failedCount, skippedCount, notes, reused },
    verdict: Verdict[wire.verdict] as VerdictName,
    assurance: assuranceOf(wire.assurance),
    roles: wire.roles.map(({ role, assurance }) => ({ role: toRole(role), assurance: assuranceOf(assurance) })),
    passedTests: wire.passedTests,
    failedTests: wire.failedTests,
    skippedTests: wire.skippedTests,
    tests: wire.tests.map(toTest),
    omittedTestCount: wire.omittedTestCount,
    stdout: Buffer.from(wire.stdout),
    stderr: Buffer.from(wire.stderr),
    stdoutOmittedBytes: Number(wire.stdoutOmittedBytes),
    stderrOmittedBytes: Number(wire.stderrOmittedBytes),
    testDurationMs: toMilliseconds(wire.testDuration),
    reportFormats: wire.reportFormats.map((format) => ReportFormat[format] as ReportFormatName),
    steps: wire.steps.map(({ step, duration }) => {
      return { step: GradingStep[step] as GradingStepName, durationMs: toMilliseconds(duration) };
    }),
    cpuTimeMs: wire.cpuTime === undefined ? 0 : toMilliseconds(wire.cpuTime),
    peakMemoryBytes: Number(wire.peakMemoryBytes),
  };
}

function toTest({ name, role, outcome, duration, message }: WireTest): TestResultInfo {
  const durationMs = duration && toMilliseconds(duration);
  return { name, role: toRole(role), outcome: TestOutcome[outcome] as TestOutcomeName, durationMs, message };
}

export function toVerdict(wire: Verdict): VerdictName | undefined {
  return wire === Verdict.UNSPECIFIED ? undefined : (Verdict[wire] as VerdictName);
}

export function toRole(wire: TestRole): TestRoleName | undefined {
  return wire === TestRole.UNSPECIFIED ? undefined : (TestRole[wire] as TestRoleName);
}

function assuranceOf(wire: Assurance): AssuranceName | undefined {
  return wire === Assurance.UNSPECIFIED ? undefined : (Assurance[wire] as AssuranceName);
}
