import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { VerificationChange } from '../verification/verification-change.ts';
import type { Room, Stored } from './session-store.ts';

/** Verification records. Every method rejects with DomainError STORE_UNAVAILABLE where the store does not answer. */
export interface VerificationStore {
  /** Writes a new record and publishes its event. Undefined: one with this id exists. */
  create(record: VerificationRecord): Promise<Stored<VerificationRecord> | undefined>;
  get(project: string, verificationId: string): Promise<Stored<VerificationRecord> | undefined>;
  /**
   * Makes the change by compare-and-set, again on a conflict, and publishes the event. Resolves with the record as it
   * stands then and whether this call changed it, or undefined if there is none.
   */
  change(project: string, verificationId: string, what: VerificationChange): Promise<Changed | undefined>;
  /** Publishes the event of the record as it is, under the same message id as before. Says whether that worked. */
  announce(stored: Stored<VerificationRecord>): Promise<boolean>;
  /** Whether the stream of events has that of the record as it is, or a later one. */
  isAnnounced(stored: Stored<VerificationRecord>): Promise<boolean>;
  /** Every record, as a complete and fresh answer of the store. */
  all(): Promise<VerificationRecord[]>;
  /** How full the store is. */
  room(): Promise<Room>;
  /** Removes a record that is still as it was then, and tells whoever watches. Says whether it was. */
  remove(stored: Stored<VerificationRecord>): Promise<boolean>;
  /** Takes away what told of removals some time ago. */
  tidy(): Promise<void>;
  /** Calls back for every write from now on, until it is stopped. A lost connection may leave some out. */
  watch(listener: (record: VerificationRecord) => void): () => void;
}

export interface Changed extends Stored<VerificationRecord> {
  readonly changed: boolean;
  /** Whether the event of the change was published; nothing was where nothing was changed. */
  readonly announced: boolean;
}
