import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import type { KvEntry } from '@nats-io/kv';
import type { Broker } from './broker.ts';
import { type BucketName, bucketSpecs } from './bucket-spec.ts';
import type { Stored } from './session-store.ts';

/** A record with the moment, on this process's own clock, at which it was seen to change. */
export interface Seen<T> extends Stored<T> {
  readonly revision: number;
  readonly seenAtMs: number;
  readonly writtenAtMs: number;
}

/** All records of a bucket in memory, kept up by a watch. It may lag by a moment; whoever must not, asks the store. */
export interface RecordView<T> {
  /** Whether the view holds everything and the broker was there lately. */
  readonly warm: boolean;
  get(key: string): Seen<T> | undefined;
  entries(): IterableIterator<[string, Seen<T>]>;
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
  type T = MessageShape<Desc>;
  const { broker, now, onError } = options;
  const kv = broker.bucket(options.bucket);
  const records = new Map<string, Seen<T>>();
  const listeners = new Map<string, Set<(seen: Seen<T>) => void>>();
  const firstPass = Promise.withResolvers<void>();
  let complete = false;
  let closed = false;
  let lostAtMs: number | undefined;
  let stopWatch = (): void => {};

  const put = (key: string, value: T, revision: number, writtenAtMs: number): void => {
    const held = records.get(key);
    if (held !== undefined && held.revision >= revision) return;
    const seen = { value, revision, seenAtMs: now(), writtenAtMs };
    records.set(key, seen);
    for (const listener of [...(listeners.get(key) ?? [])]) listener(seen);
  };
  const apply = (entry: KvEntry): void => {
    if (entry.operation !== 'PUT') {
      records.delete(entry.key);
      return;
    }
    try {
      put(entry.key, fromBinary(options.schema, entry.value), entry.revision, entry.created.getTime());
    } catch (error) {
      onError(error);
    }
  };
  const watchOnce = async (): Promise<void> => {
    const empty = (await kv.status()).values === 0;
    const watch = await kv.watch();
    stopWatch = () => watch.stop();
    if (closed) watch.stop();
    const before = new Map(records);
    const finishPass = (): void => {
      // What was there before and did not come again was removed while nobody watched.
      for (const [key, seen] of before) if (records.get(key) === seen) records.delete(key);
      before.clear();
      complete = true;
      firstPass.resolve();
    };
    if (empty) finishPass();
    for await (const entry of watch) {
      before.delete(entry.key);
      apply(entry);
      if (entry.delta === 0 && before.size + Number(!complete) > 0) finishPass();
    }
  };
  const watchForEver = async (): Promise<void> => {
    while (!closed) {
      await broker.whenConnected().then(watchOnce).catch(onError);
      if (!closed) await new Promise((resolve) => setTimeout(resolve, rewatchDelayMs));
    }
  };
  const stopFollowing = broker.onConnectionChange((connected) => {
    lostAtMs = connected ? undefined : now();
    // The watch would find out by its missing heartbeats; a new one is sure and at once.
    if (connected) stopWatch();
  });
  const pruning = setInterval(() => {
    const oldest = Date.now() - bucketSpecs[options.bucket].maxAgeMs;
    for (const [key, seen] of records) if (seen.writtenAtMs < oldest) records.delete(key);
  }, pruneEveryMs);
  pruning.unref();
  void watchForEver();

  return {
    get warm() {
      return complete && (lostAtMs === undefined || now() - lostAtMs < believedWithoutBrokerMs);
    },
    get: (key) => records.get(key),
    entries: () => records.entries(),
    note: (key, stored) => put(key, stored.value, Number(stored.revision), Date.now()),
    subscribe(key, listener) {
      const set = listeners.get(key) ?? new Set();
      listeners.set(key, set.add(listener));
      return () => {
        set.delete(listener);
        if (set.size === 0 && listeners.get(key) === set) listeners.delete(key);
      };
    },
    whenWarm: () => firstPass.promise,
    close() {
      closed = true;
      clearInterval(pruning);
      stopFollowing();
      stopWatch();
    },
  };
}
