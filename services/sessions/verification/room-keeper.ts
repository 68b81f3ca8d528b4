import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Logger } from '../../shared/log.ts';
import { fairLossOf } from '../../shared/store/fair-share.ts';
import type { Seen } from '../../shared/store/record-map.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import { startSweeping } from '../sweeping.ts';
import type { VerificationDirectory } from './verification-directory.ts';

export interface RoomKeeperDeps {
  readonly verifications: VerificationDirectory;
  readonly everyMs: number;
  readonly log: Logger;
}

/** Over this share room is made: a store that is full takes no status either, and what is under way could not end. */
const full = 7 / 8;
/** How much is left then. */
const roomy = 3 / 4;
/** In one sweep, so that it does not go on for minutes. */
const mostAtOnce = 5_000;
/** Somebody may still be about to tell of an end that was written just now. */
const quietMs = 5_000;

/**
 * Removes records of verifications that have ended where the store is nearly full: the oldest of the project that has most
 * of them. Any number of instances may do that. Returns what ends it.
 */
export function keepRoom({ verifications, everyMs, log }: RoomKeeperDeps): () => void {
  const sweep = async (isStopped: () => boolean): Promise<void> => {
    await verifications.tidy();
    const { bytes, maxBytes, records } = await verifications.room();
    if (bytes <= maxBytes * full) return;
    const wanted = Math.ceil((records * (bytes - maxBytes * roomy)) / bytes);
    let removed = 0;
    for (const record of fairLosses(ended(verifications), Math.min(wanted, mostAtOnce))) {
      if (isStopped()) return;
      if (await verifications.remove(record)) removed += 1;
    }
    log.warn(
      { bytes, max_bytes: maxBytes, removed },
      'the store of verifications is nearly full; the oldest of the projects that have most are evicted',
    );
  };
  return startSweeping({
    ready: verifications.whenWarm(),
    ...{ sweep, everyMs },
    onError: (error) => log.warn({ err: error }, 'no room could be made in the store of verifications'),
  });
}

function ended(verifications: VerificationDirectory): Seen<VerificationRecord>[] {
  const isEnded = ({ value, writtenAtMs }: Seen<VerificationRecord>): boolean =>
    isFinal(verificationOf(value).state) && Date.now() - writtenAtMs > quietMs;
  return [...verifications.all()].filter(isEnded);
}

/** Records are about equally large, so they are counted. */
function fairLosses(records: readonly Seen<VerificationRecord>[], wanted: number): Seen<VerificationRecord>[] {
  const held = Map.groupBy(records, ({ value }) => value.project);
  const losses = fairLossOf(new Map(Array.from(held, ([project, { length }]) => [project, length])), wanted);
  return [...losses].flatMap(([project, loss]) =>
    (held.get(project) ?? []).toSorted((a, b) => a.revision - b.revision).slice(0, Math.ceil(loss)),
  );
}
