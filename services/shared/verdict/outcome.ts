import type { Assurance, RoleName } from '../sample/verification-schema.ts';

/** Everything a grading can end in. */
export const verdicts = [
  'PASSED',
  'FAILED',
  'TAMPERED',
  'TIMED_OUT',
  'OUT_OF_MEMORY',
  'INVALID_SUBMISSION',
  'SAMPLE_BROKEN',
  'INFRA_ERROR',
] as const;
export type Verdict = (typeof verdicts)[number];

export type ReportedStatus = 'passed' | 'failed' | 'skipped' | 'error';

/** A test as a report tells of it. */
export interface ReportedTest {
  readonly name: string;
  readonly status: ReportedStatus;
  readonly durationMs: number | undefined;
  readonly message: string;
}

/** How a command ended, as the guest's wait says. */
export type RunEnd =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signaled'; readonly signal: number }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'out_of_memory' }
  /** The container, the worker or the engine failed: nothing is known about the submission. */
  | { readonly kind: 'lost'; readonly reason: string };

/** One run of a test command. */
export interface RunOutcome {
  readonly name: string;
  readonly roles: readonly RoleName[];
  readonly end: RunEnd;
  readonly tests: readonly ReportedTest[];
  /** Report files that were missing or could not be believed, each with its reason. */
  readonly badReports: readonly string[];
  /** What a reward file said. */
  readonly reward: number | undefined;
}

/** What was seen of a submission before its tests ran. */
export type SubmissionFinding =
  /** Over a cap, a kind of file that cannot be taken over, a forbidden path. */
  | { readonly kind: 'invalid'; readonly reason: string }
  /** A trace of an attempt on the grading itself. */
  | { readonly kind: 'tampering'; readonly reason: string };

/** All that a verdict is made from. */
export interface Grading {
  readonly roles: {
    readonly [name in RoleName]?: { readonly assurance: Assurance; readonly tests: readonly string[] };
  };
  readonly reward: 'verdict' | 'fraction' | 'report';
  readonly findings: readonly SubmissionFinding[];
  /** The build step, where the sample has one and it was reached. */
  readonly prepare: RunEnd | undefined;
  readonly runs: readonly RunOutcome[];
  /** What keeps the sample from being graded whatever the submission is: a program that its image lacks, for example. */
  readonly sampleProblem: string | undefined;
}

/** A test in the result. */
export interface GradedTest {
  readonly name: string;
  /** `missing`: required, and no report has it. */
  readonly status: ReportedStatus | 'missing';
  /** None for a test that the sample does not name, such as one that the agent added. */
  readonly role: RoleName | undefined;
  readonly durationMs: number | undefined;
  readonly message: string;
}

export interface Counts {
  readonly total: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** The verdict and what it rests on. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly isSuccess: boolean;
  /** The weakest level among the roles that the verdict needed. */
  readonly assurance: Assurance;
  /** Whether the outcome is the agent's doing, so that it may be learnt from. */
  readonly trainable: boolean;
  /** From 0 to 1. 0 unless the outcome is the agent's doing. */
  readonly reward: number;
  readonly counts: Counts;
  readonly tests: readonly GradedTest[];
  /** Why, in sentences, the first being the one that decided. */
  readonly reasons: readonly string[];
}
