import type { Broker } from './broker.ts';
import { type BucketKeeping, createNatsObjectBucket, createNatsObjectReader } from './nats-object-bucket.ts';
import type { SampleReader, SampleStore } from './sample-store.ts';

const bucket = 'assay_samples';

/** The contents of samples in the object store `assay_samples`. One that has half its time behind it is stored again. */
export async function createNatsSampleStore(broker: Broker, keeping: BucketKeeping): Promise<SampleStore> {
  const objects = await createNatsObjectBucket(broker, bucket, keeping);
  return {
    get: objects.get,
    put: objects.put,
    async has(contentDigest) {
      const storedMs = await objects.storedMs(contentDigest);
      return storedMs !== undefined && Date.now() - storedMs < keeping.keepMs / 2;
    },
  };
}

/** Reads what the sessions service stores. */
export function createNatsSampleReader(broker: Broker): SampleReader {
  return createNatsObjectReader(broker, bucket);
}
