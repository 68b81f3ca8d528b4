import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import type { KvEntry } from '@nats-io/kv';
import { type Broker, storeTimeoutMs } from './broker.ts';
import { type BucketName, bucketSpecs } from './bucket-spec.ts';
import { beginFirstPass } from './first-pass.ts';
import { createRecordMap, type RecordMap, type Seen } from './record-map.ts';
import type { Stored } from './session-store.ts';

/** All records of a bucket in memory, kept up by a watch. It may lag by a moment; whoever must not, asks the store. */
export interface RecordView<T> {
  /** Whether the view holds everything and the broker was there lately. */
  readonly warm: boolean;
  get(key: string): Seen<T> | undefined;
  entries(): MapIterator<[string, Seen<T>]>;
  /** Those whose keys begin with `<group>.`, without a look at the others. */
  ofGroup(group: string): Iterable<Seen<T>>;
  /** Lets go of a record that was removed from the store, if it is still this one. */
  drop(key: string, seen: Seen<T>): void;
  /** Puts in what this process wrote or read itself, so that it sees its own writes at once. */
  note(key: string, stored: Stored<T>): void;
  /** Calls back on every change of this key. Returns what ends that. */
  subscribe(key: string, listener: (seen: Seen<T>) => void): () => void;
  whenWarm(): Promise<void>;
  close(): void;
}

export interface RecordViewOptions<Desc extends DescMessage> {
  readonly broker: Broker;
  readonly bucket: BucketName;
  readonly schema: Desc;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** Without a broker for longer than this, what the view says of revoked keys and the like is not believed any more. */
const believedWithoutBrokerMs = 60_000;
const rewatchDelayMs = 250;
const pruneEveryMs = 3_600_000;

export function createRecordView<Desc extends DescMessage>(
  options: RecordViewOptions<Desc>,
): RecordView<MessageShape<Desc>> {
  const { broker, now } = options;
  const records = createRecordMap<MessageShape<Desc>>(now);
  const watch = keepWatching(options, records);
  let lostAtMs: number | undefined;
  const stopFollowing = broker.onConnectionChange((connected) => {
    lostAtMs = connected ? undefined : now();
    // The watch would find out by its missing heartbeats; a new one is sure and at once.
    if (connected) watch.again();
  });
  const pruning = setInterval(() => {
    const oldest = Date.now() - bucketSpecs[options.bucket].maxAgeMs;
    for (const [key, seen] of records.entries()) if (seen.writtenAtMs < oldest) records.delete(key);
  }, pruneEveryMs);
  pruning.unref();
  return {
    get warm() {
      return watch.complete && (lostAtMs === undefined || now() - lostAtMs < believedWithoutBrokerMs);
    },
    get: records.get,
    entries: records.entries,
    ofGroup: records.ofGroup,
    drop(key, seen) {
      if (records.get(key) === seen) records.delete(key);
    },
    subscribe: records.subscribe,
    note: (key, stored) => records.put(key, stored.value, Number(stored.revision), Date.now()),
    whenWarm: () => watch.firstPass,
    close() {
      clearInterval(pruning);
      stopFollowing();
      watch.stop();
    },
  };
}

interface Watch {
  /** Whether a first pass over all records was completed. */
  readonly complete: boolean;
  readonly firstPass: Promise<void>;
  again(): void;
  stop(): void;
}

/** Feeds the records from a watch, and from a new one whenever that ends. */
function keepWatching<Desc extends DescMessage>(
  { broker, bucket, schema, onError }: RecordViewOptions<Desc>,
  records: RecordMap<MessageShape<Desc>>,
): Watch {
  const kv = broker.bucket(bucket);
  const firstPass = Promise.withResolvers<void>();
  let complete = false;
  let stopped = false;
  let stopWatch = (): void => {};

  const apply = (entry: KvEntry): void => {
    try {
      if (entry.operation !== 'PUT') records.delete(entry.key);
      else records.put(entry.key, fromBinary(schema, entry.value), entry.revision, entry.created.getTime());
    } catch (error) {
      onError(error);
    }
  };
  const watchOnce = async (): Promise<void> => {
    const pass = await beginFirstPass(kv);
    const watch = await kv.watch();
    stopWatch = () => watch.stop();
    if (stopped) watch.stop();
    const unseen = new Map(records.entries());
    let passed = false;
    // What was last may have been removed, and nothing come after it: then another watch tells.
    const late = setTimeout(() => watch.stop(), storeTimeoutMs);
    const finishPass = (): void => {
      passed = true;
      clearTimeout(late);
      // What was there before and did not come again was removed while nobody watched.
      for (const [key, seen] of unseen) if (records.get(key) === seen) records.delete(key);
      complete = true;
      firstPass.resolve();
    };
    if (pass.empty) finishPass();
    try {
      for await (const entry of watch) {
        unseen.delete(entry.key);
        apply(entry);
        if (passed) continue;
        if (pass.isComplete(entry)) finishPass();
        else late.refresh();
      }
    } finally {
      clearTimeout(late);
    }
  };
  void (async () => {
    while (!stopped) {
      await broker.whenConnected().then(watchOnce).catch(onError);
      if (!stopped) await new Promise((resolve) => setTimeout(resolve, rewatchDelayMs));
    }
  })();
  return {
    get complete() {
      return complete;
    },
    firstPass: firstPass.promise,
    again: () => stopWatch(),
    stop() {
      stopped = true;
      stopWatch();
    },
  };
}
