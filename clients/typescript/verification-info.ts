import { Assurance } from '../../gen/assay/v1/types_pb.js';
import {
  TestOutcome,
  Verdict,
  VerificationStatus,
  type VerificationResult as WireResult,
  type TestResult as WireTest,
  type Verification as WireVerification,
} from '../../gen/assay/v1/verification_pb.js';
import type { AssuranceName } from './samples.ts';
import { toDate, toMilliseconds } from './time.ts';

export type VerificationStatusName = 'pending' | 'starting' | 'running' | 'completed' | 'error' | 'cancelled';
export type VerdictName = Exclude<keyof typeof Verdict, 'UNSPECIFIED'>;
export type TestOutcomeName = Exclude<keyof typeof TestOutcome, 'UNSPECIFIED'>;

export interface TestResultInfo {
  readonly name: string;
  /** `fail_to_pass`, `pass_to_pass`, `sentinel_fail`, or empty for a test that the sample does not name. */
  readonly role: string;
  readonly outcome: TestOutcomeName;
  readonly durationMs: number | undefined;
  readonly message: string;
}

/** What a grading found. Names, tests, output, notes and what it used are empty without the grader scope. */
export interface VerificationResult {
  readonly isSuccess: boolean;
  readonly verdict: VerdictName;
  /** Why, in a sentence. */
  readonly reason: string;
  readonly assurance: AssuranceName | undefined;
  /** The level of each role; `assurance` is the weakest that the verdict needed. */
  readonly roles: readonly { readonly role: string; readonly assurance: AssuranceName | undefined }[];
  /** Whether the outcome is the agent's doing, so that it may be learnt from. */
  readonly trainable: boolean;
  /** From 0 to 1. */
  readonly reward: number;
  readonly total: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly passes: readonly string[];
  readonly failures: readonly string[];
  readonly skips: readonly string[];
  readonly tests: readonly TestResultInfo[];
  /** Tests that are counted and not listed, because there were too many. */
  readonly omittedTests: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  readonly stdoutOmittedBytes: number;
  readonly stderrOmittedBytes: number;
  readonly executionDurationSeconds: number;
  readonly tool: string;
  /** Milliseconds by phase, in order. */
  readonly phases: readonly { readonly phase: string; readonly durationMs: number }[];
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
  readonly status: VerificationStatusName;
  /** What its worker is doing. Empty unless starting or running. */
  readonly phase: string;
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
    readonly bytes: number;
    readonly files: number;
    readonly deletions: number;
    /** How long the session stood still. */
    readonly pauseMs: number;
  };
  readonly assurance: AssuranceName | undefined;
  readonly createTime: Date | undefined;
  readonly startTime: Date | undefined;
  readonly endTime: Date | undefined;
  readonly attempts: number;
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
export function hasEnded({ status }: VerificationInfo): boolean {
  return status === 'completed' || status === 'error' || status === 'cancelled';
}

export function toVerificationInfo(wire: WireVerification): VerificationInfo {
  const { digests, submission } = wire;
  return {
    id: wire.verificationId,
    sessionId: wire.sessionId,
    status: VerificationStatus[wire.status].toLowerCase() as VerificationStatusName,
    phase: wire.phase,
    sample: { dataset: wire.dataset, id: wire.sampleId, version: wire.sampleVersion },
    digests: {
      submission: digests?.submission ?? '',
      sample: digests?.sample ?? '',
      verification: digests?.verification ?? '',
      image: digests?.image ?? '',
      fileSystem: digests?.fileSystem ?? '',
    },
    submission: {
      bytes: Number(submission?.bytes ?? 0),
      files: submission?.files ?? 0,
      deletions: submission?.deletions ?? 0,
      pauseMs: submission?.pause === undefined ? 0 : toMilliseconds(submission.pause),
    },
    assurance: assuranceOf(wire.assurance),
    createTime: toDate(wire.createTime),
    startTime: toDate(wire.startTime),
    endTime: toDate(wire.endTime),
    attempts: wire.attempts,
    cancelRequested: wire.cancelRequested,
    reusedFrom: wire.reusedFrom,
    regradeOf: wire.regradeOf,
    workerId: wire.workerId,
    message: wire.message,
    result: wire.result && toResult(wire.result),
  };
}

function toResult(wire: WireResult): VerificationResult {
  const { isSuccess, reason, trainable, reward, total, passed, failed, skipped, tool, notes, reused } = wire;
  return {
    ...{ isSuccess, reason, trainable, reward, total, passed, failed, skipped, tool, notes, reused },
    verdict: Verdict[wire.verdict] as VerdictName,
    assurance: assuranceOf(wire.assurance),
    roles: wire.roles.map(({ role, assurance }) => ({ role, assurance: assuranceOf(assurance) })),
    passes: wire.passes,
    failures: wire.failures,
    skips: wire.skips,
    tests: wire.tests.map(toTest),
    omittedTests: wire.omittedTests,
    stdout: Buffer.from(wire.stdout),
    stderr: Buffer.from(wire.stderr),
    stdoutOmittedBytes: Number(wire.stdoutOmittedBytes),
    stderrOmittedBytes: Number(wire.stderrOmittedBytes),
    executionDurationSeconds: wire.executionDurationSeconds,
    phases: wire.phases.map(({ phase, duration }) => ({ phase, durationMs: duration ? toMilliseconds(duration) : 0 })),
    cpuTimeMs: wire.cpuTime === undefined ? 0 : toMilliseconds(wire.cpuTime),
    peakMemoryBytes: Number(wire.peakMemoryBytes),
  };
}

function toTest({ name, role, outcome, duration, message }: WireTest): TestResultInfo {
  const durationMs = duration && toMilliseconds(duration);
  return { name, role, outcome: TestOutcome[outcome] as TestOutcomeName, durationMs, message };
}

function assuranceOf(wire: Assurance): AssuranceName | undefined {
  return wire === Assurance.UNSPECIFIED ? undefined : (Assurance[wire] as AssuranceName);
}
