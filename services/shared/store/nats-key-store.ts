import { KeyRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Broker } from './broker.ts';
import type { KeyStore } from './key-store.ts';
import { createRecordBucket } from './record-bucket.ts';

/** API keys in the bucket `assay_keys`. */
export function createNatsKeyStore(broker: Broker): KeyStore {
  const bucket = createRecordBucket(broker, 'assay_keys', KeyRecordSchema);
  return {
    get: (keyId) => bucket.get(keyId),
    async create(record) {
      if (record.key === undefined) throw new TypeError('a key record without a key');
      return bucket.compareAndSet(record.key.keyId, record, 0);
    },
    async update(keyId, change) {
      // Two administrators at one key: the second reads what the first wrote.
      for (;;) {
        const found = await bucket.get(keyId);
        if (found === undefined) return undefined;
        const next = change(found.value);
        if (next === undefined) return found;
        const stored = await bucket.compareAndSet(keyId, next, Number(found.revision));
        if (stored !== undefined) return stored;
      }
    },
  };
}
