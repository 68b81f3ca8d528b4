import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { VerificationResultSchema } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../domain-error.ts';
import type { Broker } from './broker.ts';
import { createFairObjectBucket } from './fair-object-bucket.ts';
import { type BucketKeeping, createNatsObjectReader } from './nats-object-bucket.ts';
import type { ResultReader, ResultStore } from './result-store.ts';

const bucket = 'assay_results';

/** Results in the object store `assay_results`. */
export async function createNatsResultStore(broker: Broker, keeping: BucketKeeping): Promise<ResultStore> {
  const objects = await createFairObjectBucket(broker, bucket, keeping);
  return {
    ...createNatsResultReader(broker),
    async put(name, result) {
      const bytes = toBinary(VerificationResultSchema, result);
      // Tests and output that find no room are not kept; the verdict is in the record.
      if (bytes.length > objects.largestBytes) return;
      await objects.put(name, onePiece(bytes), bytes.length).catch((error: unknown) => {
        if (!(error instanceof DomainError && error.reason === 'STORE_FULL')) throw error;
      });
    },
  };
}

/** Reads what workers store. */
export function createNatsResultReader(broker: Broker): ResultReader {
  const objects = createNatsObjectReader(broker, bucket);
  return {
    async get(name) {
      const pieces = await objects.get(name);
      if (pieces === undefined) return undefined;
      return fromBinary(VerificationResultSchema, Buffer.concat(await Array.fromAsync(pieces)));
    },
  };
}

async function* onePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}
