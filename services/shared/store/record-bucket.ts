import { type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import type { KV, KvEntry } from '@nats-io/kv';
import { type Broker, storeTimeoutMs } from './broker.ts';
import type { BucketName } from './bucket-spec.ts';
import { beginFirstPass } from './first-pass.ts';
import { repeatable } from './repeatable.ts';
import { createRetryPolicy } from './retry-policy.ts';
import type { Room, Stored } from './session-store.ts';
import { isConflict, isMissing, isRefusal, isTemporary, storeUnavailable } from './store-error.ts';

/** Protobuf records of one kind in one bucket. Rejects with STORE_UNAVAILABLE where the broker does not answer. */
export interface RecordBucket<Desc extends DescMessage> {
  get(key: string): Promise<Stored<MessageShape<Desc>> | undefined>;
  /** Writes if the record is still at `revision` (0: if there is none). Undefined: it is not. */
  compareAndSet(
    key: string,
    record: MessageShape<Desc>,
    revision: number,
  ): Promise<Stored<MessageShape<Desc>> | undefined>;
  /** Every record, read after the call was made. */
  all(): Promise<Stored<MessageShape<Desc>>[]>;
  /** Removes a record that is still at this revision and leaves nothing in its place. Says whether it was. */
  remove(revision: number): Promise<boolean>;
  room(): Promise<Room>;
}

export function createRecordBucket<Desc extends DescMessage>(
  broker: Broker,
  name: BucketName,
  schema: Desc,
): RecordBucket<Desc> {
  const kv = broker.bucket(name);
  const decode = (entry: KvEntry): Stored<MessageShape<Desc>> | undefined =>
    entry.operation === 'PUT' ? { value: fromBinary(schema, entry.value), revision: entry.revision } : undefined;
  const guarded = async <T>(call: () => Promise<T>): Promise<T> => {
    await broker.whenConnected();
    try {
      return await call();
    } catch (error) {
      throw storeUnavailable(error);
    }
  };
  return {
    get: (key) =>
      guarded(async () => {
        const entry = await repeatable(broker, () => kv.get(key));
        return entry === null ? undefined : decode(entry);
      }),
    compareAndSet: (key, record, revision) =>
      guarded(async () => {
        const written = await writeOnce(broker, kv, key, toBinary(schema, record), revision);
        return written === undefined ? undefined : { value: record, revision: written };
      }),
    all: () =>
      guarded(async () =>
        (await repeatable(broker, () => readAll(kv))).map(decode).filter((stored) => stored !== undefined),
      ),
    remove: (revision) =>
      guarded(async () => {
        const { streams } = await broker.js.jetstreamManager(false);
        try {
          return await repeatable(broker, () => streams.deleteMessage(`KV_${name}`, revision, false));
        } catch (error) {
          if (isMissing(error)) return false;
          throw error;
        }
      }),
    room: () =>
      guarded(async () => {
        const { config, state } = (await repeatable(broker, () => kv.status())).streamInfo;
        return { bytes: state.bytes, maxBytes: config.max_bytes, records: state.messages };
      }),
  };
}

/**
 * One compare-and-set. When the answer is lost the record is read back: our bytes there mean that it was made; the old
 * revision means that it was not, and the same compare-and-set is safe to send again.
 */
async function writeOnce(
  broker: Broker,
  kv: KV,
  key: string,
  bytes: Uint8Array,
  revision: number,
): Promise<number | undefined> {
  const retry = createRetryPolicy();
  for (let first = true; ; first = false) {
    try {
      return await broker.answered(() => kv.put(key, bytes, { previousSeq: revision, timeout: storeTimeoutMs }));
    } catch (error) {
      if (isConflict(error) && first) return undefined;
      if (isRefusal(error) && !isConflict(error) && !isTemporary(error)) throw error;
      const found = await repeatable(broker, () => kv.get(key));
      if (found !== null && found.revision > revision) {
        return Buffer.compare(found.value, bytes) === 0 ? found.revision : undefined;
      }
      if (!(await retry.next(error))) throw error;
    }
  }
}

/** The last value of every key. An answer that stops short is no answer. */
async function readAll(kv: KV): Promise<KvEntry[]> {
  const pass = await beginFirstPass(kv);
  if (pass.empty) return [];
  const watch = await kv.watch();
  const entries: KvEntry[] = [];
  let complete = false;
  const timer = setTimeout(() => watch.stop(), storeTimeoutMs);
  try {
    for await (const entry of watch) {
      entries.push(entry);
      timer.refresh();
      if (pass.isComplete(entry)) {
        complete = true;
        break;
      }
    }
  } finally {
    clearTimeout(timer);
    watch.stop();
  }
  if (!complete) throw new Error(`the list of records broke off after ${entries.length}`);
  return entries;
}
