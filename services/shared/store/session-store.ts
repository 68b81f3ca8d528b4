import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';

/** A record with the revision that a compare-and-set names. */
export interface Stored<T> {
  readonly value: T;
  readonly revision: bigint | number;
}

/** A session by its name alone. */
export interface SessionName {
  readonly project: string;
  readonly sessionId: string;
}

/** A note to a worker that a session was given to it, at a revision of its own. */
export interface Reminder extends SessionName {
  readonly revision: number;
}

/** A session record. The revision of one that is archived is a place in the archive, and belongs to no compare-and-set. */
export interface StoredSession extends Stored<SessionRecord> {
  readonly archived: boolean;
}

/**
 * Session records: live ones in a bucket of their own, ended ones in the archive. Every method rejects with DomainError
 * STORE_UNAVAILABLE where the store does not answer.
 */
export interface SessionStore {
  /**
   * Writes a new record. Undefined: one with this id exists outside the archive; whoever gives an id that may have been
   * used before looks into the archive first. A record that is CREATING leaves a reminder for its worker.
   */
  create(record: SessionRecord): Promise<StoredSession | undefined>;
  get(project: string, sessionId: string): Promise<StoredSession | undefined>;
  /**
   * Reads, changes and writes by compare-and-set, again on a conflict; an ambiguous write is read back. `change` returns
   * undefined to leave the record as it is. Resolves with the record as it stands then, or undefined if there is none.
   * Publishes the session's event after a write. An archived record is final, whatever `change` says.
   */
  update(
    project: string,
    sessionId: string,
    change: (record: SessionRecord) => SessionRecord | undefined,
  ): Promise<StoredSession | undefined>;
  /**
   * Every record outside the archive that names this worker, as a complete and fresh answer of the store. It reads the
   * records of all workers: for the start of a worker, and its end.
   */
  ofWorker(workerId: string): Promise<StoredSession[]>;
  /** The sessions that this worker was reminded of. */
  remindersOf(workerId: string): Promise<Reminder[]>;
  /** Removes a reminder, unless it was given again since. */
  dropReminder(reminder: Reminder): Promise<void>;
  /** Removes a record that the archive has, at this revision. Says whether it was there. */
  remove(stored: StoredSession): Promise<boolean>;
  /** How full the bucket of live records is. */
  room(): Promise<Room>;
}

/** How full a store is. */
export interface Room {
  readonly bytes: number;
  readonly maxBytes: number;
  readonly records: number;
}
