import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { ArchiveWatch } from '../../shared/store/nats-archive-watch.ts';
import type { SessionArchive } from '../../shared/store/session-archive.ts';
import type { EndedIndex } from './ended-index.ts';

/** Archived sessions in lists: where they are from memory, the records of one page from the archive. */
export interface EndedSessions {
  /**
   * Whether a session of this id may be archived. No is sure, but for one that was archived a moment ago: such a one is
   * among the live ones for a while yet.
   */
  mayHold(sessionId: string): boolean;
  /** Those of a project created at `fromMs` or before it, that ended in one of these states (none: in any). */
  from(project: string, fromMs: number, states: ReadonlySet<SessionState>): Promise<EndedCursor>;
}

/** Goes from newer to older sessions, by the millisecond of their creation. */
export interface EndedCursor {
  /** When the next one was created. Undefined: there is none. */
  nextMs(): number | undefined;
  /** The next ones, about so many, with all of the same millisecond, in any order. One that is gone is left out. */
  read(count: number): Promise<SessionRecord[]>;
}

const completeWithinMs = 20_000;

export function createEndedSessions(
  archive: SessionArchive,
  index: EndedIndex,
  watch: Pick<ArchiveWatch, 'whenComplete' | 'caughtUp'>,
): EndedSessions {
  return {
    mayHold: (sessionId) => !watch.caughtUp || index.mayHold(sessionId),
    async from(project, fromMs, states) {
      await completed(watch);
      let from = fromMs;
      return {
        nextMs: () => index.page(project, from, 1, states)[0]?.createMs,
        async read(count) {
          const page = index.page(project, from, count, states);
          from = (page.at(-1)?.createMs ?? 0) - 1;
          const read = await Promise.all(page.map(async ({ place }) => ({ place, record: await archive.at(place) })));
          // The oldest of a project go first, so what was archived before one that is gone is gone too.
          const gone = read.filter(({ record }) => record === undefined).map(({ place }) => place);
          if (gone.length > 0) index.dropBefore(Math.max(...gone) + 1, project);
          return read.flatMap(({ record }) => (record?.project === project ? [record] : []));
        },
      };
    },
  };
}

async function completed(watch: Pick<ArchiveWatch, 'whenComplete'>): Promise<void> {
  const timeout = Promise.withResolvers<never>();
  const message = 'the list of ended sessions is not loaded yet; try again, or ask for states of live ones';
  const timer = setTimeout(() => timeout.reject(new DomainError('STORE_UNAVAILABLE', message)), completeWithinMs);
  try {
    await Promise.race([watch.whenComplete(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
