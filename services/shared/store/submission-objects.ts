import type { Broker } from './broker.ts';
import { type BucketKeeping, createNatsObjectBucket, createNatsObjectReader } from './nats-object-bucket.ts';

/** Sealed submissions by digest, for every worker to fetch. */
export interface SubmissionObjects {
  /** Whether it is there and will be for a while. */
  has(digest: string): Promise<boolean>;
  get(digest: string): Promise<AsyncGenerator<Uint8Array, void> | undefined>;
  put(digest: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
}

const bucket = 'assay_submissions';

/** In the object store `assay_submissions`. One that has half its time behind it is stored again when it comes again. */
export async function createNatsSubmissionObjects(broker: Broker, keeping: BucketKeeping): Promise<SubmissionObjects> {
  const objects = await createNatsObjectBucket(broker, bucket, keeping);
  return {
    get: objects.get,
    put: objects.put,
    async has(digest) {
      const storedMs = await objects.storedMs(digest);
      return storedMs !== undefined && Date.now() - storedMs < keeping.keepMs / 2;
    },
  };
}

/** Whether a submission can still be graded, for those who only ask. */
export function createNatsSubmissionLookup(broker: Broker): (digest: string) => Promise<boolean> {
  const objects = createNatsObjectReader(broker, bucket);
  return async (digest) => (await objects.storedMs(digest)) !== undefined;
}
