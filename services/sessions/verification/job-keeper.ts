import { create } from '@bufbuild/protobuf';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { Verdict, VerificationResultSchema } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { JobQueue } from '../../shared/store/job-queue.ts';
import type { VerificationChange } from '../../shared/verification/verification-change.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { sessionOf } from '../session/session-view.ts';
import { startSweeping } from '../sweeping.ts';
import type { VerificationDirectory } from './verification-directory.ts';

export interface JobKeeperDeps {
  readonly verifications: VerificationDirectory;
  readonly queue: JobQueue;
  readonly sessions: Pick<SessionDirectory, 'find'>;
  readonly everyMs: number;
  readonly log: Logger;
}

/** A record that was written just now gets its job from whoever wrote it. */
const quietMs = 5_000;

/**
 * Queues the job of every verification that has not ended and has none: its maker died between the two, or the broker
 * lost it. Ends those whose tests were to run in a session that is gone. Any number of instances may do that; a job that is queued twice is done once. Returns what ends it.
 */
export function keepJobs({ verifications, queue, sessions, everyMs, log }: JobKeeperDeps): () => void {
  /** Its tests were to run in a session that has ended, on a worker that may never come back to say so. */
  const isHopeless = async ({ project, inPlaceWorkerId, verification }: VerificationRecord): Promise<boolean> => {
    if (inPlaceWorkerId === '') return false;
    const session = await sessions.find(project, verification?.sessionId ?? '').catch((error: unknown) => {
      if (error instanceof DomainError && error.reason === 'SESSION_NOT_FOUND') return undefined;
      throw error;
    });
    return session === undefined || isTerminal(sessionOf(session).state);
  };
  const sweep = async (isStopped: () => boolean): Promise<void> => {
    for (const { value, writtenAtMs } of [...verifications.all()]) {
      const { verificationId, state } = verificationOf(value);
      if (isStopped() || isFinal(state) || Date.now() - writtenAtMs < quietMs) continue;
      if (await isHopeless(value)) {
        await verifications.change(value.project, verificationId, withoutSession(value));
        continue;
      }
      const { inPlaceWorkerId } = value;
      if (await queue.holds(value.project, verificationId, inPlaceWorkerId)) continue;
      log.warn({ verification_id: verificationId }, 'a verification had no job; it is queued again');
      await queue.publish(value.project, verificationId, inPlaceWorkerId);
    }
  };
  return startSweeping({
    ready: verifications.whenWarm(),
    ...{ sweep, everyMs },
    onError: (error) => log.warn({ err: error }, 'verifications could not be looked through for missing jobs'),
  });
}

function withoutSession(record: VerificationRecord): VerificationChange {
  const { sessionId } = verificationOf(record);
  const reason = `session ${sessionId} ended before its tests at SHARED had, which run in the session itself`;
  const result = create(VerificationResultSchema, { verdict: Verdict.INFRA_ERROR, reason, trainable: false });
  return { type: 'ended', claim: record.claim, error: true, result, object: '', atMs: Date.now() };
}
