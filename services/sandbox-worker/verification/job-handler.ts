import { fromBinary } from '@bufbuild/protobuf';
import {
  type VerificationJob,
  VerificationJobSchema,
  type VerificationRecord,
} from '../../../gen/assay/internal/v1/records_pb.js';
import { VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import type { JobDelivery, JobSource } from '../../shared/store/job-queue.ts';
import type { Stored } from '../../shared/store/session-store.ts';
import type { VerificationChange } from '../../shared/verification/verification-change.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import { SessionGone } from '../grading/in-place.ts';
import type { Meter } from '../meter.ts';
import type { GradingHold, PausingGrading } from '../sandbox/grading-hold.ts';
import {
  type Attempt,
  type AttemptDeps,
  createAttempt,
  createClaim,
  describeFailure,
  StoppedAttempt,
  UnannouncedEnd,
} from './attempt.ts';
import { infrastructureResult } from './verification-result.ts';

export interface JobHandlerDeps extends AttemptDeps {
  readonly jobs: JobSource;
  readonly workerId: string;
  /** How often a verification is begun before it is given up. */
  readonly attempts: number;
  /** How long a job may be silent before it comes again. */
  readonly ackWaitMs: number;
  /** After this a job comes again whose attempt failed, and after twice as much with every further one. */
  readonly firstPauseMs?: number;
  /** For samples that have the sessions of their project stand still. */
  readonly hold?: Pick<GradingHold, 'admit'>;
  readonly meter: Pick<Meter, 'gradings' | 'gradingEnded'>;
  readonly log: Logger;
}

/** Does what a delivery asks for. Every answer to the queue is given here. */
export interface JobHandler {
  /** Resolves when nothing of it is left to do here. Never rejects. */
  handle(delivery: JobDelivery): Promise<void>;
  /** Looks whether a record that was written concerns an attempt of this worker. */
  look(record: VerificationRecord): void;
  /** Gives back what is under way. */
  stop(): void;
  readonly running: number;
}

interface Running {
  readonly attempt: Attempt;
  /** The last delivery of its job. */
  delivery: JobDelivery;
}

const longestPauseMs = 30_000;

export function createJobHandler(deps: JobHandlerDeps): JobHandler {
  const { store, jobs, log, firstPauseMs = 1_000 } = deps;
  const running = new Map<string, Running>();
  /** Places in the queue of what is being handled, from before it runs. */
  const handling = new Set<bigint>();
  let stopping = false;

  /** Final already: whoever waits for the event may have missed it. */
  const conclude = async (stored: Stored<VerificationRecord>, delivery: JobDelivery): Promise<void> => {
    if (await store.announce(stored)) await delivery.ack();
    else delivery.nak(firstPauseMs);
  };
  /** The job is done with once its end was told, and not where another attempt has taken the place of this one. */
  const finish = async (delivery: JobDelivery, record: VerificationRecord, what: VerificationChange): Promise<void> => {
    const now = await store.change(record.project, verificationOf(record).verificationId, what);
    if (now?.changed === false && !isFinal(verificationOf(now.value).state)) return;
    if (now?.changed === true && !now.announced) return delivery.nak(firstPauseMs);
    await delivery.ack();
  };
  const giveUp = (delivery: JobDelivery, record: VerificationRecord, why: string): Promise<void> => {
    const { claim } = record;
    const result = infrastructureResult(why);
    return finish(delivery, record, { type: 'ended', claim, error: true, result, object: '', atMs: Date.now() });
  };
  /** A copy of a job that is under way is dropped; the one it is done under comes again if need be. */
  const isCopy = async ({ claim, jobSequence }: VerificationRecord, delivery: JobDelivery): Promise<boolean> =>
    claim !== '' && jobSequence !== delivery.sequence && (await jobs.has(jobSequence));

  const begin = async (job: VerificationJob, delivery: JobDelivery): Promise<void> => {
    const { project, verificationId } = job;
    const found = await store.get(project, verificationId);
    if (found === undefined) {
      log.warn({ verification_id: verificationId }, 'a job without a record was dropped');
      return delivery.term();
    }
    const { state, cancelRequested, attemptCount: attempts, sessionId } = verificationOf(found.value);
    if (isFinal(state)) return conclude(found, delivery);
    const { inPlaceWorkerId } = found.value;
    // Another worker has the session; nothing was tried here.
    if (inPlaceWorkerId !== '' && inPlaceWorkerId !== deps.workerId) return delivery.nak(firstPauseMs);
    if (await isCopy(found.value, delivery)) return delivery.ack();
    if (cancelRequested) return finish(delivery, found.value, { type: 'cancelled', atMs: Date.now() });
    if (attempts >= deps.attempts) {
      const { workerId } = verificationOf(found.value);
      return giveUp(delivery, found.value, `${attempts} attempts ended without a verdict, the last on ${workerId}`);
    }
    const session = inPlaceWorkerId === '' ? undefined : deps.session?.(project, sessionId);
    const free = session === undefined ? () => {} : session.keep();
    // Its session is paused, or another's turn: nothing was tried, and no slot is kept until then.
    if (free === undefined) return delivery.nak(firstPauseMs);
    let pausing: PausingGrading | undefined;
    try {
      if (await pausesSessions(found.value)) {
        pausing = deps.hold?.admit(project);
        // Its project's sessions have stood still for long, and run first.
        if (deps.hold !== undefined && pausing === undefined) return delivery.nak(firstPauseMs);
      }
      if (await claimAndAttempt(found.value, delivery, pausing)) return;
    } finally {
      pausing?.end();
      free();
    }
    // Somebody was quicker: it is looked at again as it is now.
    await begin(job, delivery);
  };

  /** A sample that cannot be had is for the attempt to fail with. */
  const pausesSessions = async (record: VerificationRecord): Promise<boolean> => {
    const { digests } = verificationOf(record);
    const folder = await deps.samples.folder(digests?.sample ?? '').catch(() => undefined);
    return folder?.sample.verification.pause_sessions === true;
  };

  /** False where it could not be claimed. */
  const claimAndAttempt = async (
    record: VerificationRecord,
    delivery: JobDelivery,
    pausing: PausingGrading | undefined,
  ): Promise<boolean> => {
    const { workerId } = deps;
    const claim = createClaim(workerId);
    const { sequence } = delivery;
    const what = { type: 'claimed', claim, over: record.claim, workerId, sequence, atMs: Date.now() } as const;
    const claimed = await store.change(record.project, verificationOf(record).verificationId, what);
    if (claimed?.value.claim !== claim) return false;
    await attempt(claimed.value, createAttempt(deps, claim, pausing), delivery);
    return true;
  };

  /** Where the store does not answer the next look tells. */
  const lookAgain = (project: string, verificationId: string, made: Attempt): void => {
    store.get(project, verificationId).then(
      (now) => now && made.look(now.value),
      () => {},
    );
  };

  const attempt = async (record: VerificationRecord, made: Attempt, delivery: JobDelivery): Promise<void> => {
    const { verificationId } = verificationOf(record);
    const entry: Running = { attempt: made, delivery };
    running.set(verificationId, entry);
    const began = performance.now();
    const ended = (outcome: string) => deps.meter.gradingEnded(outcome, (performance.now() - began) / 1_000);
    deps.meter.gradings += 1;
    const alive = setInterval(() => {
      entry.delivery.working();
      // What the watch did not see: a cancel while the connection was lost.
      lookAgain(record.project, verificationId, made);
    }, deps.ackWaitMs / 3);
    try {
      if (stopping) made.stop('worker stops');
      made.look(record);
      const outcome = await made.run(record).then(
        (verdict) => ({ verdict }),
        (error: unknown) => ({ error }),
      );
      if ('verdict' in outcome) {
        ended(outcome.verdict);
        await entry.delivery.ack();
      } else {
        ended(outcomeOf(outcome.error));
        await settle(record, made, entry.delivery, outcome.error);
      }
    } finally {
      deps.meter.gradings -= 1;
      clearInterval(alive);
      if (running.get(verificationId) === entry) running.delete(verificationId);
    }
  };

  /** What becomes of an attempt that did not reach its end. */
  const settle = async (record: VerificationRecord, { claim }: Attempt, delivery: JobDelivery, error: unknown) => {
    const { project } = record;
    const { verificationId, attemptCount: attempts } = verificationOf(record);
    if (error instanceof UnannouncedEnd) return delivery.nak(firstPauseMs);
    if (error instanceof StoppedAttempt) {
      if (error.why === 'cancelled') return finish(delivery, record, { type: 'cancelled', atMs: Date.now() });
      if (error.why === 'replaced') return;
      const message = 'the worker stopped';
      await store.change(project, verificationId, { type: 'returned', claim, message, counts: false });
      return delivery.nak(0);
    }
    const message = describeFailure(error);
    log.warn({ verification_id: verificationId, attempts, err: error }, 'an attempt to grade failed');
    const hopeless = error instanceof SessionGone;
    // Its project's other builds come first: nothing was tried.
    const waits = error instanceof DomainError && error.reason === 'BUILD_QUOTA';
    if (hopeless || (!waits && attempts >= deps.attempts)) {
      return giveUp(delivery, record, hopeless ? message : `${attempts} attempts failed: ${message}`);
    }
    await store.change(project, verificationId, { type: 'returned', claim, message, counts: !waits });
    delivery.nak(waits ? firstPauseMs * 10 : Math.min(firstPauseMs * 2 ** (attempts - 1), longestPauseMs));
  };

  return {
    get running() {
      return running.size;
    },
    look(record) {
      const { verificationId, state } = verificationOf(record);
      const attempt = running.get(verificationId)?.attempt;
      if (attempt === undefined || state === VerificationState.PENDING) return;
      if (record.claim === attempt.claim) attempt.look(record);
      // It may be older than the claim: a watch lags, and a list takes its time. The store tells what is true now.
      else lookAgain(record.project, verificationId, attempt);
    },
    stop() {
      stopping = true;
      for (const { attempt } of running.values()) attempt.stop('worker stops');
    },
    async handle(delivery) {
      const job = decodeJob(delivery.data);
      if (job === undefined) {
        log.warn({ sequence: String(delivery.sequence) }, 'a job that cannot be read was dropped');
        return delivery.term();
      }
      const { sequence } = delivery;
      if (handling.has(sequence)) {
        // This process was stalled for so long that its own job came again.
        const mine = running.get(job.verificationId);
        if (mine?.delivery.sequence === sequence) mine.delivery = delivery;
        return delivery.working();
      }
      handling.add(sequence);
      try {
        await begin(job, delivery);
      } catch (error) {
        // The store does not answer: nothing is acknowledged, so the job comes again.
        log.warn({ verification_id: job.verificationId, err: error }, 'a job could not be concluded; it comes again');
      } finally {
        handling.delete(sequence);
      }
    },
  };
}

/** What became of an attempt without a verdict, in one word. */
function outcomeOf(error: unknown): string {
  if (!(error instanceof StoppedAttempt)) return 'failed';
  return error.why === 'worker stops' ? 'returned' : error.why;
}

/** Undefined where nobody can read it. */
export function decodeJob(data: Uint8Array): VerificationJob | undefined {
  try {
    const job = fromBinary(VerificationJobSchema, data);
    return job.project === '' || job.verificationId === '' ? undefined : job;
  } catch {
    return undefined;
  }
}
