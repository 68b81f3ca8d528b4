import { SampleValidationSchema } from '../../../gen/assay/v1/sample_pb.js';
import type { Broker } from './broker.ts';
import { createRecordBucket } from './record-bucket.ts';
import type { ValidationStore } from './validation-store.ts';

/** In the bucket `assay_validations`. */
export function createNatsValidationStore(broker: Broker): ValidationStore {
  const bucket = createRecordBucket(broker, 'assay_validations', SampleValidationSchema);
  const keyOf = (contentDigest: string): string => contentDigest.replace(':', '-');
  return {
    get: async (contentDigest) => (await bucket.get(keyOf(contentDigest)))?.value,
    async put(validation) {
      const key = keyOf(validation.contentDigest);
      for (;;) {
        const revision = Number((await bucket.get(key))?.revision ?? 0);
        if ((await bucket.compareAndSet(key, validation, revision)) !== undefined) return;
      }
    },
  };
}
