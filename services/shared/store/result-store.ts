import type { VerificationResult } from '../../../gen/assay/v1/verification_pb.js';

/** Whole results of verifications, kept for a time. */
export interface ResultReader {
  /** Undefined: there is none, or not any more. */
  get(name: string): Promise<VerificationResult | undefined>;
}

export interface ResultStore extends ResultReader {
  /** Under `<project>/…`: when there is no room, the oldest of the project that has most go. */
  put(name: string, result: VerificationResult): Promise<void>;
}
