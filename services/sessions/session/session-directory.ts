import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { sessionKey } from '../../shared/store/nats-session-store.ts';
import type { Seen } from '../../shared/store/record-map.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import type { SessionStore, Stored, StoredSession } from '../../shared/store/session-store.ts';
import { noSession } from '../validation/identifier.ts';
import type { EndedSessions } from './ended-sessions.ts';

/** Session records: from memory where that is good enough, from the store where it is not. */
export interface SessionDirectory {
  /** From memory, else from the store. Rejects with SESSION_NOT_FOUND, also for a session of another project. */
  find(project: string, sessionId: string): Promise<SessionRecord>;
  /** From memory only: undefined where this process has not seen the record yet. */
  peek(project: string, sessionId: string): SessionRecord | undefined;
  /** Whether a session of this id may be archived. Where it is sure that none is, nobody has to ask the store. */
  mayHaveEnded(sessionId: string): boolean;
  /** From the store. */
  fresh(project: string, sessionId: string): Promise<SessionRecord>;
  /** Those of a project that live or ended a moment ago, from memory. */
  ofProject(project: string): Promise<SessionRecord[]>;
  /** All that live or ended a moment ago, from memory. */
  all(): Iterable<Seen<SessionRecord>>;
  /** Lets go of a record that was moved to the archive. */
  drop(seen: Seen<SessionRecord>): void;
  whenWarm(): Promise<void>;
  /** All of a worker that are not archived, from the store. */
  ofWorker(workerId: string): Promise<SessionRecord[]>;
  create(record: SessionRecord): Promise<SessionRecord | undefined>;
  /** Puts in a record that a worker has just written. */
  note(stored: Stored<SessionRecord>): SessionRecord;
  update(
    project: string,
    sessionId: string,
    change: (record: SessionRecord) => SessionRecord | undefined,
  ): Promise<SessionRecord>;
  /** The record as soon as `test` holds for it. Rejects with the signal's reason. */
  until(
    project: string,
    sessionId: string,
    test: (record: SessionRecord) => boolean,
    signal: AbortSignal,
  ): Promise<SessionRecord>;
}

const warmWithinMs = 5_000;

export function createSessionDirectory(
  store: SessionStore,
  view: RecordView<SessionRecord>,
  ended: Pick<EndedSessions, 'mayHold'>,
): SessionDirectory {
  const keyOf = ({ project, session }: SessionRecord): string => sessionKey(project, session?.sessionId ?? '');
  const noted = (stored: Stored<SessionRecord>): SessionRecord => {
    view.note(keyOf(stored.value), stored);
    return stored.value;
  };
  /** What is archived is not held in memory. */
  const found = (stored: StoredSession): SessionRecord => (stored.archived ? stored.value : noted(stored));
  const fresh = async (project: string, sessionId: string): Promise<SessionRecord> => {
    const stored = await store.get(project, sessionId);
    if (stored === undefined) throw noSession(sessionId);
    return found(stored);
  };
  return {
    fresh,
    note: noted,
    peek: (project, sessionId) => view.get(sessionKey(project, sessionId))?.value,
    async find(project, sessionId) {
      const seen = view.warm ? view.get(sessionKey(project, sessionId)) : undefined;
      return seen?.value ?? fresh(project, sessionId);
    },
    async ofProject(project) {
      if (!view.warm) await warm(view);
      return Array.from(view.ofGroup(project), ({ value }) => value);
    },
    *all() {
      for (const [, seen] of view.entries()) yield seen;
    },
    mayHaveEnded: ended.mayHold,
    drop: (seen) => view.drop(keyOf(seen.value), seen),
    whenWarm: () => view.whenWarm(),
    ofWorker: async (workerId) => (await store.ofWorker(workerId)).map(noted),
    async create(record) {
      const stored = await store.create(record);
      return stored === undefined ? undefined : noted(stored);
    },
    async update(project, sessionId, change) {
      const stored = await store.update(project, sessionId, change);
      if (stored === undefined) throw noSession(sessionId);
      return found(stored);
    },
    until: (project, sessionId, test, signal) =>
      new Promise((resolve, reject) => {
        const finish = (run: () => void): void => {
          stop();
          signal.removeEventListener('abort', abort);
          run();
        };
        const look = (record: SessionRecord): void => {
          if (test(record)) finish(() => resolve(record));
        };
        const abort = (): void => finish(() => reject(signal.reason));
        const stop = view.subscribe(sessionKey(project, sessionId), ({ value }) => look(value));
        signal.addEventListener('abort', abort);
        if (signal.aborted) return abort();
        // What changed before the subscription is in the store.
        fresh(project, sessionId).then(look, (error) => {
          if (!isOutage(error)) finish(() => reject(error));
        });
      }),
  };
}

/** An outage is waited out: the view comes back with the store. */
function isOutage(error: unknown): boolean {
  return error instanceof DomainError && error.reason === 'STORE_UNAVAILABLE';
}

async function warm(view: RecordView<SessionRecord>): Promise<void> {
  const timeout = Promise.withResolvers<never>();
  const message = 'the list of sessions is not loaded yet; try again';
  const timer = setTimeout(() => timeout.reject(new DomainError('STORE_UNAVAILABLE', message)), warmWithinMs);
  try {
    await Promise.race([view.whenWarm(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
