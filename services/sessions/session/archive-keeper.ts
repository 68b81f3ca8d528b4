import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Logger } from '../../shared/log.ts';
import { isOver } from '../../shared/session-state.ts';
import { fairLossOf } from '../../shared/store/fair-share.ts';
import { archiveBytes } from '../../shared/store/nats-session-archive.ts';
import type { Seen } from '../../shared/store/record-map.ts';
import type { SessionArchive } from '../../shared/store/session-archive.ts';
import type { SessionStore } from '../../shared/store/session-store.ts';
import { startSweeping } from '../sweeping.ts';
import type { EndedIndex } from './ended-index.ts';
import type { LiveRoom } from './live-room.ts';
import type { SessionDirectory } from './session-directory.ts';
import { sessionOf } from './session-view.ts';

export interface ArchiveKeeperDeps {
  readonly sessions: Pick<SessionDirectory, 'all' | 'drop' | 'whenWarm'>;
  readonly store: Pick<SessionStore, 'remove' | 'room'>;
  readonly liveRoom: Pick<LiveRoom, 'note'>;
  readonly archive: SessionArchive;
  readonly index: EndedIndex;
  readonly everyMs: number;
  /** Milliseconds that only ever grow. */
  readonly now: () => number;
  readonly log: Logger;
}

/** Over this share of the archive room is made. What is above is for what comes meanwhile. */
const full = 7 / 8;
/** How much is left then. */
const roomy = 3 / 4;
/** Over this share nothing is archived: a store that is full to the last byte drops its oldest record, whosever it is. */
const brim = 15 / 16;
/** The share of the archive that must be in the index. */
const caughtUp = 0.95;
/** Over this share of the bucket of live records nothing is held back in it. */
const crowded = 1 / 2;
/**
 * How long a record stays in the bucket after it was archived: longer than any instance that is connected lags behind the
 * archive, and longer than a request that may come twice takes from its look there to its write into the bucket. So it
 * finds its session in the one or the other.
 */
const holdMs = 60_000;
/** What one call removes: some twenty thousand records take the broker a second on a busy machine. */
const bytesAtOnce = 8 * 1_048_576;
/** Calls to the broker at one time: enough to be quick, too few to hold up others. */
const inFlight = 8;

/**
 * Moves the records of ended sessions from the bucket of live ones to the archive, and makes room there. A record is
 * archived before it is removed, and only at the revision that was archived, so whoever dies in between loses and doubles
 * nothing: the next sweep of any instance goes on. Returns what ends it.
 */
export function keepArchive(deps: ArchiveKeeperDeps): () => void {
  const { sessions, store, archive, index, everyMs, now, log } = deps;
  /** What this instance has archived or found archived, and when. A record that is over does not change any more. */
  const archived = new WeakMap<Seen<SessionRecord>, number>();
  /** What was archived before this place has left the index. */
  let dropped = 0;

  /** Resolves with the bytes that the archive may take until the next sweep. */
  const makeRoom = async (): Promise<number> => {
    const { bytes, maxBytes, records, firstPlace } = await archive.room();
    // Looking through all for the few that are too old is worth it only now and then.
    if (firstPlace - dropped > index.size / 100) {
      dropped = firstPlace;
      index.dropBefore(dropped);
    }
    const left = maxBytes * brim - bytes;
    // Who holds most is known only once the index has caught up with the archive; the next sweep looks again.
    if (bytes <= maxBytes * full || index.size < records * caughtUp) return left;
    const losses = fairLossOf(index.bytesByProject(), bytes - maxBytes * roomy);
    let removed = 0;
    for (const [project, loss] of losses) {
      for (let rest = loss; rest > 0; rest -= bytesAtOnce) {
        const place = index.cut(project, Math.min(rest, bytesAtOnce));
        removed += await archive.removeBefore(project, place);
        index.dropBefore(place, project);
      }
    }
    log.warn(
      { bytes, max_bytes: maxBytes, removed, projects: losses.size },
      'the archive of sessions is nearly full; the oldest of the projects that hold most are evicted',
    );
    return left;
  };
  const removeHeld = async (seen: Seen<SessionRecord>, since: number, heldMs: number): Promise<void> => {
    if (now() - since < heldMs) return;
    await store.remove({ ...seen, archived: false });
    sessions.drop(seen);
  };
  const sweep = async (isStopped: () => boolean): Promise<void> => {
    let left = await makeRoom();
    const room = await store.room();
    deps.liveRoom.note(room);
    const heldMs = room.bytes > room.maxBytes * crowded ? 0 : holdMs;
    const rest = [...sessions.all()].filter(({ value }) => isOver(sessionOf(value))).values();
    const lane = async (): Promise<void> => {
      for (const seen of rest) {
        if (isStopped()) return;
        const since = archived.get(seen);
        if (since !== undefined) await removeHeld(seen, since, heldMs);
        else {
          left -= archiveBytes(seen.value);
          if (left < 0) continue;
          await archive.add(seen.value);
          archived.set(seen, now());
        }
      }
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
  };
  return startSweeping({
    ready: sessions.whenWarm(),
    ...{ sweep, everyMs },
    onError: (error) => log.warn({ err: error }, 'ended sessions could not be archived; the next sweep tries again'),
  });
}
