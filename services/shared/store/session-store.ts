import type { SessionRecord } from '../../../gen/assay/events/v1/records_pb.js';

/** A record with the revision that a compare-and-set names. */
export interface Stored<T> {
  readonly value: T;
  readonly revision: bigint | number;
}

/** Session records. Every method rejects with DomainError STORE_UNAVAILABLE where the store does not answer. */
export interface SessionStore {
  /** Writes a new record. Undefined: one with this id exists. */
  create(record: SessionRecord): Promise<Stored<SessionRecord> | undefined>;
  get(project: string, sessionId: string): Promise<Stored<SessionRecord> | undefined>;
  /**
   * Reads, changes and writes by compare-and-set, again on a conflict; an ambiguous write is read back. `change` returns
   * undefined to leave the record as it is. Resolves with the record as it stands then, or undefined if there is none.
   * Publishes the session's event after a write.
   */
  update(
    project: string,
    sessionId: string,
    change: (record: SessionRecord) => SessionRecord | undefined,
  ): Promise<Stored<SessionRecord> | undefined>;
  /** Every record that names this worker, terminal ones too, as a complete and fresh answer of the store. */
  ofWorker(workerId: string): Promise<Stored<SessionRecord>[]>;
}
