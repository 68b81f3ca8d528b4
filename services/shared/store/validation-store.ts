import type { SampleValidation } from '../../../gen/assay/v1/sample_pb.js';

/** The last outcome of each sample that was put to the test, by the digest of its contents. */
export interface ValidationStore {
  get(contentDigest: string): Promise<SampleValidation | undefined>;
  /** In place of an earlier one. */
  put(validation: SampleValidation): Promise<void>;
}
