import type { Logger } from '../../shared/log.ts';
import type { JobQueue } from '../../shared/store/job-queue.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-status.ts';
import type { VerificationDirectory } from './verification-directory.ts';

export interface JobKeeperDeps {
  readonly verifications: VerificationDirectory;
  readonly queue: JobQueue;
  readonly everyMs: number;
  readonly log: Logger;
}

/** A record that was written just now gets its job from whoever wrote it. */
const quietMs = 5_000;

/**
 * Queues the job of every verification that has not ended and has none: its maker died between the two, or the broker
 * lost it. Any number of instances may do that; a job that is queued twice is done once. Returns what ends it.
 */
export function keepJobs({ verifications, queue, everyMs, log }: JobKeeperDeps): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;

  const sweep = async (): Promise<void> => {
    for (const { value, writtenAtMs } of [...verifications.all()]) {
      const { verificationId, status } = verificationOf(value);
      if (stopped || isFinal(status) || Date.now() - writtenAtMs < quietMs) continue;
      if (await queue.holds(value.project, verificationId)) continue;
      log.warn({ verification_id: verificationId }, 'a verification had no job; it is queued again');
      await queue.publish(value.project, verificationId);
    }
  };
  const again = (): void => {
    sweep()
      .catch((error) => log.warn({ err: error }, 'verifications could not be looked through for missing jobs'))
      .finally(() => {
        if (!stopped) timer = setTimeout(again, everyMs);
      });
  };
  void verifications.whenWarm().then(() => stopped || again());
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
