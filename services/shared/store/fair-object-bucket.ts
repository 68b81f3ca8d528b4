import type { Broker } from './broker.ts';
import { fairLosses } from './fair-losses.ts';
import { type BucketKeeping, createNatsObjectBucket, type ObjectReader } from './nats-object-bucket.ts';

/** Objects named `<project>/…`, in a bucket that the projects share. */
export interface FairObjectBucket extends ObjectReader {
  /** The largest object that it takes. */
  readonly largestBytes: number;
  /** As in any bucket; what has to go for its `bytes` is of the project that has most. */
  put(name: string, pieces: AsyncIterable<Uint8Array>, bytes: number): Promise<void>;
}

/** Over this share room is made. What is above is for what other processes store meanwhile. */
const full = 7 / 8;
/** How much is left then: making room reads the whole list, so it is not done for each object. */
const roomy = 3 / 4;

export async function createFairObjectBucket(
  broker: Broker,
  bucket: string,
  keeping: BucketKeeping,
): Promise<FairObjectBucket> {
  const objects = await createNatsObjectBucket(broker, bucket, { ...keeping, dropsOldest: true });
  const largestBytes = keeping.maxBytes / 2;
  /** Of this process, not stored to the end yet. */
  let arriving = 0;
  let turn: Promise<unknown> = Promise.resolve();

  const makeRoom = async (name: string, bytes: number): Promise<void> => {
    const needed = (await objects.heldBytes()) + arriving;
    if (needed <= keeping.maxBytes * full) return;
    const losses = fairLosses(await objects.list(), { name, bytes }, needed - keeping.maxBytes * roomy);
    for (const object of losses) await objects.remove(object);
  };
  return {
    ...{ get: objects.get, storedMs: objects.storedMs, largestBytes },
    async put(name, pieces, bytes) {
      arriving += bytes;
      try {
        const room = turn.then(() => makeRoom(name, bytes));
        turn = room.catch(() => {});
        await room;
        await objects.put(name, pieces);
      } finally {
        arriving -= bytes;
      }
    },
  };
}
