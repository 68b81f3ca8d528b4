import { abortable } from '../abortable.ts';
import { DomainError } from '../domain-error.ts';
import type { Broker } from './broker.ts';
import { full, makingRoom, projectOf } from './fair-losses.ts';
import { type BucketKeeping, createNatsObjectBucket, type ObjectReader } from './nats-object-bucket.ts';
import { isStreamFull } from './store-error.ts';

/** Objects named `<project>/…`, in a bucket that the projects share. */
export interface FairObjectBucket extends ObjectReader {
  /** The largest object that it takes. */
  readonly largestBytes: number;
  /**
   * As in any bucket; what has to go for its `bytes`, which may be an estimate, is of the project that has most. Waits for
   * room while uploads are under way. Rejects with STORE_FULL where the object does not fit without costing a smaller
   * holder anything, with LIMIT_EXCEEDED where more than `largestBytes` come, and with the signal's reason.
   */
  put(name: string, pieces: AsyncIterable<Uint8Array>, bytes: number, signal?: AbortSignal): Promise<void>;
}

/** An upload that has room. */
interface Upload {
  readonly project: string;
  readonly bytes: number;
  /** What of it is not yet with the broker. */
  left: number;
}

/** An upload adds a chunk every few seconds, or is over. */
const fragmentMs = 600_000;
/** Looking for fragments reads the names of all chunks. */
const sweepEveryMs = 60_000;
/** How long a new object waits until the uploads before it have ended. */
const defaultWaitMs = 30_000;

export async function createFairObjectBucket(
  broker: Broker,
  bucket: string,
  keeping: BucketKeeping,
  waitMs = defaultWaitMs,
): Promise<FairObjectBucket> {
  const objects = await createNatsObjectBucket(broker, bucket, keeping);
  const { maxBytes } = keeping;
  const largestBytes = maxBytes / 2;
  const uploads = new Set<Upload>();
  let turn: Promise<unknown> = Promise.resolve();
  let sweptMs = Number.NEGATIVE_INFINITY;
  let uploadEnded = Promise.withResolvers<void>();

  const underWay = (): Map<string, number> => {
    const sums = new Map<string, number>();
    for (const { project, bytes } of uploads) sums.set(project, (sums.get(project) ?? 0) + bytes);
    return sums;
  };
  /** Makes room and takes it. Undefined: there is none now. */
  const admit = async (name: string, bytes: number): Promise<Upload | undefined> => {
    const project = projectOf(name);
    // What is under way cannot be removed: one project must not fill the bucket with it.
    if ((underWay().get(project) ?? 0) + bytes > largestBytes) return undefined;
    const left = [...uploads].reduce((sum, upload) => sum + upload.left, 0);
    let neededBytes = (await objects.heldBytes()) + left + bytes;
    if (neededBytes > maxBytes * full && performance.now() - sweptMs > sweepEveryMs) {
      sweptMs = performance.now();
      await objects.removeFragments(fragmentMs);
      neededBytes = (await objects.heldBytes()) + left + bytes;
    }
    if (neededBytes > maxBytes * full) {
      const room = { objects: await objects.list(), neededBytes, underWay: underWay(), maxBytes };
      const losses = makingRoom(room, { name, bytes });
      if (losses === undefined) return undefined;
      for (const object of losses) await objects.remove(object);
    }
    const upload = { project, bytes, left: bytes };
    uploads.add(upload);
    return upload;
  };
  /** One object after the other, so that two do not take the same room. */
  const admitInTurn = (name: string, bytes: number): Promise<Upload | undefined> => {
    const admitted = turn.then(() => admit(name, bytes));
    turn = admitted.catch(() => {});
    return admitted;
  };
  const waitForRoom = async (name: string, bytes: number, signal: AbortSignal | undefined): Promise<Upload> => {
    const late = AbortSignal.timeout(waitMs);
    const ended = AbortSignal.any(signal === undefined ? [late] : [late, signal]);
    for (;;) {
      signal?.throwIfAborted();
      const next = uploadEnded.promise;
      const upload = await admitInTurn(name, bytes);
      if (upload !== undefined) return upload;
      if (uploads.size === 0 || late.aborted) throw noRoom(bucket, bytes);
      await abortable(ended, next).catch(() => {});
    }
  };
  return {
    ...{ get: objects.get, storedMs: objects.storedMs, largestBytes },
    async put(name, pieces, bytes, signal) {
      const upload = await waitForRoom(name, Math.min(bytes, largestBytes), signal);
      const passing = (length: number): void => {
        signal?.throwIfAborted();
        upload.left = Math.max(0, upload.left - length);
      };
      try {
        await objects.put(name, upTo(largestBytes, pieces, passing));
      } catch (error) {
        signal?.throwIfAborted();
        throw isStreamFull((error as Error).cause) ? noRoom(bucket, bytes) : error;
      } finally {
        uploads.delete(upload);
        uploadEnded.resolve();
        uploadEnded = Promise.withResolvers();
      }
    },
  };
}

function noRoom(bucket: string, bytes: number): DomainError {
  const message = `${bytes} bytes do not fit in ${bucket} now without evicting what smaller holders have stored; store less, try again later, or have the store enlarged`;
  return new DomainError('STORE_FULL', message, { bucket });
}

async function* upTo(
  limit: number,
  pieces: AsyncIterable<Uint8Array>,
  passing: (length: number) => void,
): AsyncGenerator<Uint8Array, void> {
  let passed = 0;
  for await (const piece of pieces) {
    passed += piece.length;
    if (passed > limit) {
      const message = `more than ${limit} bytes, the most that the store takes at once; keep less, or have the store enlarged`;
      throw new DomainError('LIMIT_EXCEEDED', message, { limit: String(limit) });
    }
    passing(piece.length);
    yield piece;
  }
}
