import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { Assurance, RoleName } from '../../shared/sample/verification-schema.ts';
import type { Judgement, RunEnd } from '../../shared/verdict/outcome.ts';
import type { InPlaceSession } from './in-place.ts';

/**
 * Grades one submission in fresh containers. Throws for failures of the infrastructure and for a cancel only, and then
 * nothing is left; whatever an agent or a sample can cause is in the outcome. When that is told every process is dead, and
 * the containers are being removed.
 */
export interface Grader {
  grade(order: GradingOrder): Promise<Graded>;
}

export interface GradingOrder {
  /** Containers are labelled by it, so that a sweep finds what a dead worker left. */
  readonly verificationId: string;
  /** Whose verification it is: projects take turns. */
  readonly project?: string;
  readonly sample: SampleFolder;
  /** The id of the sample's image, built and pristine. */
  readonly image: string;
  readonly submission: StoredSubmission;
  /** The session itself, for runs at SHARED; without it such a run rejects with SessionGone. */
  readonly session?: InPlaceSession | undefined;
  /** Resolves when the sessions stand still that must not hear the grading; called before anything of the submission runs. */
  pauseSessions?(): Promise<void>;
  /** Aborted: everything is killed and removed, then grade() rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Told when a phase begins; a verification with several runs goes through them once for each. */
  phase(phase: GradingPhase): void;
}

/** A sealed submission, as a file of this host. */
export interface StoredSubmission {
  /** `sha256:<hex>`; the file is checked against it. */
  readonly digest: string;
  readonly path: string;
  /** Everything that changed in the session's whole file system, sealed at the same moment; for runs at FORK alone. */
  readonly whole?: Omit<StoredSubmission, 'whole'>;
}

/** What the grading is doing: `starting` makes the container, `preparing` builds, `running` tests, `reading` reads reports. */
export const gradingPhases = ['starting', 'preparing', 'running', 'reading'] as const;
export type GradingPhase = (typeof gradingPhases)[number];

export interface Graded {
  /** The verdict with its reasons, assurance, reward, counts and one row for each test. */
  readonly judgement: Judgement;
  /** In the order in which they were planned. Fewer than planned where an earlier one settled the verdict. */
  readonly runs: readonly GradedRun[];
  /** Of the first `prepare` and of every run, one after the other. */
  readonly stdout: KeptOutput;
  readonly stderr: KeptOutput;
  /** Where the time went, in milliseconds, all runs together; in the order in which the steps happen. */
  readonly steps: readonly StepTiming[];
  /** Of everything that ran, and the most that was in memory at once. 0 where it could not be measured. */
  readonly cpuMs: number;
  readonly peakMemoryBytes: number;
  /** What was done to the submission before it ran, and what was noticed. One sentence each. */
  readonly notes: readonly string[];
}

export interface GradedRun {
  readonly name: string;
  readonly roles: readonly RoleName[];
  readonly assurance: Assurance;
  /** The build step, where the sample has one. */
  readonly prepare: CommandOutcome | undefined;
  /** None where it was not reached. */
  readonly command: CommandOutcome | undefined;
}

/** How one command went. */
export interface CommandOutcome {
  readonly end: RunEnd;
  readonly durationMs: number;
  readonly stdout: KeptOutput;
  readonly stderr: KeptOutput;
}

/** What was kept of a stream: its beginning and its end. */
export interface KeptOutput {
  readonly bytes: Uint8Array;
  /** How much was written in all. */
  readonly totalBytes: number;
  /** Whether bytes in the middle were dropped. A line in `bytes` says where, and how many. */
  readonly truncated: boolean;
}

/** A part of a grading whose time is measured. */
export type GradingStepName =
  | 'manifest'
  | 'copy'
  | 'create'
  | 'apply'
  | 'start'
  | 'connect'
  | 'spawner'
  | 'prepare'
  | 'run'
  | 'kill'
  | 'read';

export interface StepTiming {
  readonly name: GradingStepName;
  readonly ms: number;
}
