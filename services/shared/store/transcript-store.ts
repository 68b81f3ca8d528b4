/** What remains of sessions that have ended: one transcript each, kept for a time. */
export interface TranscriptReader {
  /** The transcript in pieces, read as they are taken. Undefined: there is none, or not any more. */
  get(project: string, sessionId: string): Promise<AsyncGenerator<Uint8Array, void> | undefined>;
}

export interface TranscriptStore extends TranscriptReader {
  /**
   * Stores all of it or nothing, in place of an earlier one. `bytes`: how long it is, about; what has to go for it is of
   * the project that has most. Rejects with STORE_UNAVAILABLE, and with LIMIT_EXCEEDED where it is too long for the store.
   */
  put(project: string, sessionId: string, pieces: AsyncIterable<Uint8Array>, bytes: number): Promise<void>;
}
