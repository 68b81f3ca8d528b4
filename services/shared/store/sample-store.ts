/** The contents of samples, as tar archives under their content digests. */
export interface SampleReader {
  /** The archive in pieces, read as they are taken; whoever unpacks it checks the digest. Undefined: there is none. */
  get(contentDigest: string): Promise<AsyncGenerator<Uint8Array, void> | undefined>;
}

export interface SampleStore extends SampleReader {
  /** Whether the archive is there, and will be for a good while yet. */
  has(contentDigest: string): Promise<boolean>;
  /** Stores all of it or nothing. Rejects with STORE_UNAVAILABLE, also where it is full. */
  put(contentDigest: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
}
