import { randomBytes } from 'node:crypto';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type VerificationResult, GradingPhase as WirePhase } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { ResultStore } from '../../shared/store/result-store.ts';
import type { VerificationStore } from '../../shared/store/verification-store.ts';
import type { VerificationChange } from '../../shared/verification/verification-change.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import type { Graded, Grader, GradingPhase, StoredSubmission } from '../grading/grader.ts';
import { type InPlaceSession, SessionGone } from '../grading/in-place.ts';
import type { SampleImages } from '../sample/sample-images.ts';
import type { PausingGrading } from '../sandbox/grading-hold.ts';
import type { LocalSubmission } from '../submission/submission-store.ts';
import type { ProjectSubmissions } from './shared-submissions.ts';
import { resultOf, summaryOf } from './verification-result.ts';

export interface AttemptDeps {
  readonly store: VerificationStore;
  readonly results: ResultStore;
  readonly submissions: ProjectSubmissions;
  readonly samples: { folder(contentDigest: string): Promise<SampleFolder> };
  readonly images: Pick<SampleImages, 'ensure'>;
  readonly grader: Grader;
  /** The session of a verification with a run at SHARED. */
  readonly session?: (project: string, sessionId: string) => InPlaceSession;
}

/** Why an attempt stops before its end. */
export type Stop =
  /** Somebody cancelled the verification. */
  | 'cancelled'
  /** Another attempt has taken its place, or it has ended otherwise. */
  | 'replaced'
  /** The worker stops. */
  | 'worker stops';

/** One attempt to grade one submission, under a claim of its own. */
export interface Attempt {
  readonly claim: string;
  /** Resolves with the verdict when the record is final, or rejects: with the reason of stop(), or with what failed. */
  run(record: VerificationRecord): Promise<string>;
  stop(why: Stop): void;
  /** Looks at a newer state of the record. */
  look(record: VerificationRecord): void;
}

const phases: Readonly<Record<GradingPhase | 'image', WirePhase>> = {
  image: WirePhase.IMAGE,
  starting: WirePhase.STARTING,
  preparing: WirePhase.PREPARING,
  running: WirePhase.RUNNING,
  reading: WirePhase.READING,
};

const storePatience = 30;
const storePauseMs = 1_000;

export function createClaim(workerId: string): string {
  return `${workerId}.${randomBytes(8).toString('hex')}`;
}

export class StoppedAttempt extends Error {
  readonly why: Stop;

  constructor(why: Stop) {
    super(why);
    this.why = why;
  }
}

/** The end is recorded and nobody was told: the job must come again, for that. */
export class UnannouncedEnd extends Error {}

/** The grading could not be carried through; nothing is known about the submission. */
export class FailedAttempt extends Error {}

/** `pausing` is for a sample that has the sessions of its project stand still. */
export function createAttempt(deps: AttemptDeps, claim: string, pausing?: PausingGrading): Attempt {
  const { store } = deps;
  const stopped = new AbortController();
  /** Phases are written one after the other, behind the grading; none of them is worth a failure. */
  let written: Promise<unknown> = Promise.resolve();

  const stop = (why: Stop): void => stopped.abort(new StoppedAttempt(why));
  const look = (record: VerificationRecord): void => {
    const { state, cancelRequested } = verificationOf(record);
    if (isFinal(state) || record.claim !== claim) stop('replaced');
    else if (cancelRequested) stop('cancelled');
  };
  const tell = (project: string, verificationId: string, phase: GradingPhase | 'image'): void => {
    const running = phase === 'running' || phase === 'reading';
    const what: VerificationChange = { type: 'phase', claim, phase: phases[phase], running };
    written = written
      .then(() => store.change(project, verificationId, what))
      .then((now) => now && look(now.value))
      .catch(() => {});
  };
  const grade = async (record: VerificationRecord): Promise<{ graded: Graded; sample: SampleFolder }> => {
    const { verificationId, sessionId, digests } = verificationOf(record);
    const digest = digests?.submission ?? '';
    const { signal } = stopped;
    const sample = await deps.samples.folder(digests?.sample ?? '');
    if (sample.sample.verification.pause_sessions === true && pausing === undefined) {
      throw new FailedAttempt('whether sessions have to stand still was not known when it began');
    }
    signal.throwIfAborted();
    tell(record.project, verificationId, 'image');
    const image = await deps.images.ensure(sample, record.project, undefined, signal);
    signal.throwIfAborted();
    const submissions = deps.submissions(record.project);
    const local: LocalSubmission[] = [];
    const fetched: string[] = [];
    const fetch = async (wanted: string): Promise<StoredSubmission> => {
      const found = await submissions.fetch(wanted);
      if (found === undefined) throw new FailedAttempt(`the store has no submission ${wanted} any more`);
      local.push(found);
      fetched.push(wanted);
      return { digest: wanted, path: found.file };
    };
    try {
      const whole = digests?.fileSystem ? { whole: await fetch(digests.fileSystem) } : {};
      const graded = await deps.grader.grade({
        ...{ verificationId, project: record.project, sample, image, signal },
        submission: { ...(await fetch(digest)), ...whole },
        session: record.inPlaceWorkerId === '' ? undefined : deps.session?.(record.project, sessionId),
        ...(pausing && { pauseSessions: () => pausing.begin(signal) }),
        phase: (phase) => tell(record.project, verificationId, phase),
      });
      return { graded, sample };
    } catch (error) {
      // It may be the copy on this host that is damaged: the next attempt fetches another.
      if (!signal.aborted) for (const each of fetched) await submissions.remove(each);
      throw error;
    } finally {
      // Nothing of the submission runs any more.
      pausing?.end();
      for (const { release } of local) await release();
    }
  };
  const end = async (record: VerificationRecord, result: VerificationResult): Promise<void> => {
    const { project } = record;
    const { verificationId } = verificationOf(record);
    // Under a name of its own: what an attempt wrote that was replaced is nobody's result.
    const object = `${project}/${verificationId}/${claim}`;
    await patiently(() => deps.results.put(object, result), stopped.signal);
    await written;
    const what = { type: 'ended', claim, error: false, result: summaryOf(result), object, atMs: Date.now() } as const;
    const now = await patiently(() => store.change(project, verificationId, what), stopped.signal);
    if (now?.changed === true) {
      if (!now.announced) throw new UnannouncedEnd('its event could not be published');
      // Also where the watch has told of this very end already, which looks like that of another.
      return;
    }
    if (now !== undefined && !isFinal(verificationOf(now.value).state)) look(now.value);
    stopped.signal.throwIfAborted();
  };
  return {
    claim,
    stop,
    look,
    async run(record) {
      const { graded, sample } = await grade(record);
      const { verdict, reasons } = graded.judgement;
      if (verdict === 'INFRA_ERROR') throw new FailedAttempt(reasons.join('; '));
      await end(record, resultOf(graded, sample));
      return verdict;
    },
  };
}

/** A verdict is not thrown away because the store is restarted just then. */
async function patiently<T>(write: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let left = storePatience; ; left -= 1) {
    try {
      return await write();
    } catch (error) {
      const away = error instanceof DomainError && error.reason === 'STORE_UNAVAILABLE';
      if (!away || left === 0 || signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, storePauseMs));
    }
  }
}

/** What is told of a failure: the message of one that is ours, and no more of others than that they happened. */
export function describeFailure(error: unknown): string {
  const told = [FailedAttempt, DomainError, SessionGone].some((kind) => error instanceof kind);
  if (told && error instanceof Error) return error.message;
  return `the worker failed (${error instanceof Error ? error.message : String(error)})`;
}
