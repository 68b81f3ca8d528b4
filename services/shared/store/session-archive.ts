import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { Room, StoredSession } from './session-store.ts';

/** What is known of an archived session without reading its record. */
export interface ArchiveEntry {
  readonly project: string;
  readonly sessionId: string;
  readonly createMs: number;
  readonly state: SessionState;
  /** Its place in the archive: one that was archived later has a higher one. */
  readonly place: number;
  /** What it takes of the archive. */
  readonly bytes: number;
}

export interface ArchiveRoom extends Room {
  /** Nothing is left before this place. */
  readonly firstPlace: number;
}

/**
 * Records of sessions that have ended and of which nothing is left to be done. They never change. Every method rejects with
 * DomainError STORE_UNAVAILABLE where the store does not answer, or is full.
 */
export interface SessionArchive {
  /** Does nothing if the session is archived. */
  add(record: SessionRecord): Promise<void>;
  get(project: string, sessionId: string): Promise<StoredSession | undefined>;
  /** The record at a place. Undefined: it is gone. */
  at(place: number): Promise<SessionRecord | undefined>;
  room(): Promise<ArchiveRoom>;
  /** Removes the records of a project before a place. Resolves with their number. */
  removeBefore(project: string, place: number): Promise<number>;
}
