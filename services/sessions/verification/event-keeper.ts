import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Logger } from '../../shared/log.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import { startSweeping } from '../sweeping.ts';
import type { VerificationDirectory } from './verification-directory.ts';

export interface EventKeeperDeps {
  readonly verifications: VerificationDirectory;
  readonly everyMs: number;
  readonly log: Logger;
}

/** An end that was written just now is announced by whoever wrote it. */
const quietMs = 5_000;
/** No broker is away for longer; what is older is not asked for again whenever an instance starts. */
const lookBackMs = 86_400_000;

/**
 * Announces every end that this service wrote and that the stream of events does not have: its writer died between the
 * two, or the broker was away. Ends that workers write are announced by their jobs. Any number of instances may do that.
 * Returns what ends it.
 */
export function keepEvents({ verifications, everyMs, log }: EventKeeperDeps): () => void {
  /** A final record does not change, so neither does this. It goes with its record. */
  const announced = new WeakSet<VerificationRecord>();

  const sweep = async (isStopped: () => boolean): Promise<void> => {
    for (const { value, revision, writtenAtMs } of [...verifications.all()]) {
      const ageMs = Date.now() - writtenAtMs;
      if (isStopped() || announced.has(value) || !isOurs(value) || ageMs < quietMs || ageMs > lookBackMs) continue;
      if (await verifications.announceMissing({ value, revision })) announced.add(value);
    }
  };
  return startSweeping({
    ready: verifications.whenWarm(),
    ...{ sweep, everyMs },
    onError: (error) => log.warn({ err: error }, 'verifications could not be looked through for missing events'),
  });
}

/** Without a claim no worker had a part in its end; where only one worker could have, that may be gone. */
function isOurs(record: VerificationRecord): boolean {
  const { state } = verificationOf(record);
  return isFinal(state) && (record.claim === '' || record.inPlaceWorkerId !== '');
}
