import { DiscardPolicy, isMessageNotFound, type JetStreamManager, StorageType } from '@nats-io/jetstream/internal';
import { Objm } from '@nats-io/obj';
import { nanos } from '@nats-io/transport-node';
import { type Broker, type BrokerConnection, storeTimeoutMs } from './broker.ts';
import { answered, repeatable } from './repeatable.ts';
import { storeUnavailable } from './store-error.ts';

const duplicateMs = 120_000;

export interface BucketKeeping {
  readonly keepMs: number;
  /** Of all objects together. */
  readonly maxBytes: number;
  readonly replicas: number;
}

export interface ObjectReader {
  /** The object in pieces, read as they are taken. Undefined: there is none, or not any more. */
  get(name: string): Promise<AsyncGenerator<Uint8Array, void> | undefined>;
  /** When it was stored, in milliseconds since 1970. Undefined: there is none. */
  storedMs(name: string): Promise<number | undefined>;
}

export interface ObjectBucket extends ObjectReader {
  /** Stores all of it or nothing, in place of an earlier one. Rejects with STORE_UNAVAILABLE, also where it is full. */
  put(name: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  list(): Promise<StoredObject[]>;
  /** What the bucket takes of its `maxBytes`. */
  heldBytes(): Promise<number>;
  remove(object: StoredObject): Promise<void>;
  /** Removes what uploads have left that were killed in the middle: chunks of no object, to which none was added for so long. */
  removeFragments(idleMs: number): Promise<void>;
}

export interface StoredObject {
  readonly name: string;
  readonly bytes: number;
  readonly storedMs: number;
  /** By which its chunks are found. */
  readonly nuid: string;
}

/** Objects of any size under names. The bucket is made, or brought to these settings. */
export async function createNatsObjectBucket(
  broker: Pick<Broker, 'bulk'>,
  bucket: string,
  keeping: BucketKeeping,
): Promise<ObjectBucket> {
  const { bulk } = broker;
  const settings = {
    max_age: nanos(keeping.keepMs),
    max_bytes: keeping.maxBytes,
    // The broker takes none that is longer than the age.
    duplicate_window: nanos(Math.min(keeping.keepMs, duplicateMs)),
    // The broker knows no projects: it would drop the oldest of anybody.
    discard: DiscardPolicy.New,
  };
  const asked = <T>(call: () => Promise<T>): Promise<T> => answered(bulk, call);
  const objects = await asked(() =>
    new Objm(bulk.js).create(bucket, {
      ttl: settings.max_age,
      max_bytes: settings.max_bytes,
      storage: StorageType.File,
      replicas: keeping.replicas,
    }),
  );
  const { streams } = await bulk.js.jetstreamManager(false);
  await asked(() => streams.update(streamOf(bucket), settings));
  return {
    ...createNatsObjectReader(broker, bucket),
    async put(name, pieces) {
      await bulk.whenConnected();
      const given = new AbortController();
      const source = until(given.signal, pieces);
      try {
        await bulk.answered(() =>
          objects
            .put({ name }, ReadableStream.from(source), { timeout: storeTimeoutMs })
            // Where it failed in the middle, nobody else would let go of what the pieces come from.
            .finally(() => source.return()),
        );
      } catch (error) {
        given.abort(error);
        throw storeUnavailable(error);
      }
    },
    list: async () =>
      (await asked(() => objects.list())).map(({ name, size, mtime, nuid }) => ({
        ...{ name, nuid, bytes: size },
        storedMs: Date.parse(mtime),
      })),
    heldBytes: async () => (await asked(() => streams.info(streamOf(bucket)))).state.bytes,
    async remove({ name, nuid }) {
      // Nothing of it stays, where the client would leave a note for each.
      for (const filter of [metaSubject(bucket, name), `$O.${bucket}.C.${nuid}`])
        await asked(() => streams.purge(streamOf(bucket), { filter }));
    },
    async removeFragments(idleMs) {
      const chunks = `$O.${bucket}.C.`;
      const info = await asked(() => streams.info(streamOf(bucket), { subjects_filter: `${chunks}>` }));
      const whole = new Set((await asked(() => objects.list())).map(({ nuid }) => nuid));
      for (const filter of Object.keys(info.state.subjects ?? {})) {
        if (whole.has(filter.slice(chunks.length))) continue;
        const last = await asked(() => streams.getMessage(streamOf(bucket), { last_by_subj: filter }));
        if (last !== null && Date.now() - last.time.getTime() > idleMs)
          await asked(() => streams.purge(streamOf(bucket), { filter }));
      }
    },
  };
}

function metaSubject(bucket: string, name: string): string {
  return `$O.${bucket}.M.${Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')}`;
}

/** The pieces, and an error once nobody waits for them any more: an end would make a whole object of what there was. */
async function* until(given: AbortSignal, pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  for await (const piece of pieces) {
    given.throwIfAborted();
    yield piece;
  }
}

/** Reads a bucket that somebody else makes and fills. */
export function createNatsObjectReader({ bulk }: Pick<Broker, 'bulk'>, bucket: string): ObjectReader {
  const infoOf = async (name: string) => {
    await bulk.whenConnected();
    try {
      const objects = await new Objm(bulk.js).open(bucket, false);
      const info = await repeatable(bulk, () => objects.info(name));
      if (info === null || info.deleted) return undefined;
      // The oldest chunks go first: an object whose first is there is whole.
      if (info.size > 0 && (await chunk(bulk, bucket, info.nuid, 1)) === null) return undefined;
      return info;
    } catch (error) {
      if ((error as Error).message === 'stream not found') return undefined;
      throw storeUnavailable(error);
    }
  };
  return {
    async get(name) {
      const info = await infoOf(name);
      return info && chunks(bulk, bucket, info);
    },
    async storedMs(name) {
      const info = await infoOf(name);
      return info && Date.parse(info.mtime);
    },
  };
}

/**
 * The chunks of an object, one request for each: the client's own way pushes all of an object into memory, however slow
 * its reader is.
 */
async function* chunks(
  bulk: BrokerConnection,
  bucket: string,
  { nuid, size }: { nuid: string; size: number },
): AsyncGenerator<Uint8Array, void> {
  let next = 1;
  for (let read = 0; read < size; ) {
    const message = await chunk(bulk, bucket, nuid, next).catch((error) => {
      throw storeUnavailable(error);
    });
    if (message === null) throw storeUnavailable(new Error(`an object of ${bucket} ends at ${read} of ${size} bytes`));
    next = message.seq + 1;
    read += message.data.length;
    yield message.data;
  }
}

/** The first chunk of an object at this place of the stream or behind it; null: there is none. */
async function chunk(bulk: BrokerConnection, bucket: string, nuid: string, seq: number) {
  const query = { seq, next_by_subj: `$O.${bucket}.C.${nuid}` };
  const manager: JetStreamManager = await bulk.js.jetstreamManager(false);
  try {
    return await repeatable(bulk, () => manager.streams.getMessage(streamOf(bucket), query));
  } catch (error) {
    if (isMessageNotFound(error as Error)) return null;
    throw error;
  }
}

function streamOf(bucket: string): string {
  return `OBJ_${bucket}`;
}
