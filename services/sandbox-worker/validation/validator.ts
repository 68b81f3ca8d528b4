import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { runsInPlace } from '../../shared/sample/run-plan.ts';
import type { Verdict } from '../../shared/verdict/outcome.ts';
import type { ContainerLimits } from '../docker/engine.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import type { Grader, StoredSubmission } from '../grading/grader.ts';
import { createProjectLimit, projectSlots } from '../host/project-share.ts';
import type { BuildProgress, SampleImages } from '../sample/sample-images.ts';
import type { SubmissionStore } from '../submission/submission-store.ts';
import { type Candidate, type CandidateName, candidatesOf, isAdversary } from './candidate.ts';
import {
  CandidateError,
  type CandidateSubmissionDeps,
  labelOf,
  makeSubmission,
  UnsubmittableCandidate,
} from './candidate-submission.ts';
import { deviationsOf, flakeRate, signatureOf } from './expectation.ts';

/** One grading of one candidate. */
export interface CandidateGrading {
  readonly candidate: CandidateName;
  /** From 1. */
  readonly attempt: number;
  readonly verdict: Verdict;
  /** Why, in a sentence. */
  readonly reason: string;
  /** What is not as it must be. */
  readonly deviations: readonly string[];
  readonly failures: readonly string[];
  readonly durationMs: number;
}

/** What became of a sample that was put to the test. */
export interface ValidationOutcome {
  readonly valid: boolean;
  readonly flakeRate: number;
  readonly gradings: number;
  readonly problems: readonly string[];
}

export type ValidationNews =
  | { readonly kind: 'progress'; readonly progress: BuildProgress }
  | { readonly kind: 'grading'; readonly grading: CandidateGrading };

export interface ValidationOrder {
  readonly sample: SampleFolder;
  /** Who waits for it: projects take turns. */
  readonly project: string;
  /** How often each candidate is graded; adversaries are graded once. */
  readonly repetitions: number;
  readonly signal: AbortSignal;
  tell(news: ValidationNews): void;
}

/**
 * Grades submissions of which is known how they must be graded. Throws for failures of the infrastructure, VALIDATION_QUOTA
 * where the project has as many as it may have, and DEADLINE_EXCEEDED.
 */
export type Validator = (order: ValidationOrder) => Promise<ValidationOutcome>;

export interface ValidatorDeps extends Omit<CandidateSubmissionDeps, 'limits' | 'store' | 'project'> {
  readonly images: Pick<SampleImages, 'ensure'>;
  readonly grader: Grader;
  readonly defaultLimits: ContainerLimits;
  /** A store for one validation: two may have a submission with the same digest, and each removes its own. */
  readonly withStore: <T>(work: (store: SubmissionStore) => Promise<T>) => Promise<T>;
  /** Validations at one time: their gradings stand beside those that somebody waits for. */
  readonly slots: number;
  /** Of them, the percentage that one project may hold; 100: all of them. */
  readonly sharePercent: number;
  /** Validations of one project, those that wait included. */
  readonly perProject: number;
  /** For one validation, from its turn on. */
  readonly timeoutMs: number;
}

export function createValidator(deps: ValidatorDeps): Validator {
  const inTurn = createSemaphore(deps.slots, () => projectSlots(deps.slots, deps.sharePercent));
  const enter = createProjectLimit({
    ...{ limit: deps.perProject, reason: 'VALIDATION_QUOTA', what: 'validations' },
    setting: 'ASSAY_VALIDATIONS_PER_PROJECT',
  });
  return async (order) => {
    const { sample, project, signal, tell } = order;
    const leave = enter(project);
    try {
      const report = (progress: BuildProgress): void => tell({ kind: 'progress', progress });
      // Before its turn: whoever waits for an image must not hold up other validations.
      const image = await deps.images.ensure(sample, project, report, signal);
      return await inTurn(() => inTime(deps, order, image), project, signal);
    } finally {
      leave();
    }
  };
}

async function inTime(deps: ValidatorDeps, order: ValidationOrder, image: string): Promise<ValidationOutcome> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(tooLong(order, deps.timeoutMs)), deps.timeoutMs);
  const signal = AbortSignal.any([order.signal, late.signal]);
  try {
    return await deps.withStore((store) => validate({ ...deps, store }, { ...order, signal }, image));
  } finally {
    clearTimeout(timer);
  }
}

function tooLong({ sample: { sample } }: ValidationOrder, ms: number): DomainError {
  const found = `validating ${sample.dataset}/${sample.id} took more than ${ms / 1_000} s`;
  const message = `${found}; ask for fewer repetitions, or raise ASSAY_VALIDATION_SECONDS`;
  return new DomainError('DEADLINE_EXCEEDED', message);
}

type ValidationDeps = ValidatorDeps & { readonly store: SubmissionStore };

async function validate(deps: ValidationDeps, order: ValidationOrder, image: string): Promise<ValidationOutcome> {
  const { sample, tell } = order;
  const problems = new Set<string>();
  const signatures = new Map<CandidateName, string[]>();
  const candidates = candidatesOf(sample);
  if (runsInPlace(sample.sample.verification)) {
    problems.add('a run is at SHARED, in the session itself, and a validation has none; it cannot be put to the test');
    return { valid: false, flakeRate: 0, gradings: 0, problems: [...problems] };
  }
  if (sample.sample.oracle === undefined) problems.add('it has no oracle, so nothing shows that it can be solved');
  for (const candidate of candidates) {
    const submission = await submissionOf(deps, order, image, candidate).catch((error: unknown) => {
      if (!(error instanceof CandidateError)) throw error;
      // What cannot even be submitted cannot pass; of one that could not be made nothing is known.
      if (isAdversary(candidate.name) && error instanceof UnsubmittableCandidate) return;
      problems.add(`${candidate.name}: ${error.message}`);
    });
    if (submission === undefined) continue;
    const found: string[] = [];
    signatures.set(candidate.name, found);
    try {
      const repetitions = isAdversary(candidate.name) ? 1 : order.repetitions;
      for (let attempt = 1; attempt <= repetitions; attempt += 1) {
        const { grading, signature } = await gradeOnce(deps.grader, order, image, candidate.name, submission, attempt);
        found.push(signature);
        for (const deviation of grading.deviations) problems.add(`${candidate.name}: ${deviation}`);
        tell({ kind: 'grading', grading });
      }
      // A sample is judged by what was graded, never by what was not.
      if (found.length === 0) problems.add(`${candidate.name}: it was not graded`);
    } finally {
      await deps.store.remove(submission.digest);
      if (submission.whole !== undefined) await deps.store.remove(submission.whole.digest);
    }
  }
  const gradings = [...signatures.values()].reduce((sum, { length }) => sum + length, 0);
  return { valid: problems.size === 0, flakeRate: flakeRate(signatures), gradings, problems: [...problems] };
}

function submissionOf(
  deps: ValidationDeps,
  { sample, project, signal }: ValidationOrder,
  image: string,
  candidate: Candidate,
): Promise<StoredSubmission> {
  const { cpus, memory, disk, pids } = sample.sample.environment;
  const { defaultLimits } = deps;
  const limits = {
    cpus: cpus ?? defaultLimits.cpus,
    memoryBytes: memory ?? defaultLimits.memoryBytes,
    diskBytes: disk ?? defaultLimits.diskBytes,
    pids: pids ?? defaultLimits.pids,
  };
  return makeSubmission({ ...deps, limits, project }, sample, image, candidate, signal);
}

async function gradeOnce(
  grader: Grader,
  { sample, project, signal }: ValidationOrder,
  image: string,
  candidate: CandidateName,
  submission: StoredSubmission,
  attempt: number,
): Promise<{ grading: CandidateGrading; signature: string }> {
  const began = performance.now();
  const verificationId = labelOf(candidate);
  const { judgement } = await grader.grade({
    ...{ verificationId, project, sample, image, submission, signal },
    phase: () => {},
  });
  const { verdict, reasons, tests } = judgement;
  const failing = tests.filter(({ role, status }) => role !== 'sentinel_fail' && status !== 'passed');
  const grading = {
    ...{ candidate, attempt, verdict, reason: reasons[0] ?? '', deviations: deviationsOf(candidate, judgement) },
    failures: failing.map(({ name }) => name),
    durationMs: performance.now() - began,
  };
  return { grading, signature: signatureOf(judgement) };
}
