import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  DiscardPolicy,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { connect, type NatsConnection, nanos } from '@nats-io/transport-node';
import { ConfigError } from '../config.ts';
import { DomainError } from '../domain-error.ts';
import { checkBrokerVersion } from './broker-version.ts';
import { type BucketName, bucketNames, bucketSpecs, endedStream, eventStream, jobStream } from './bucket-spec.ts';
import { isNotReady, isStreamNotFound, storeUnavailable } from './store-error.ts';

/** No call to the broker waits longer than this. */
export const storeTimeoutMs = 5_000;

/** One connection to NATS. */
export interface BrokerConnection {
  readonly connected: boolean;
  readonly js: JetStreamClient;
  /** Resolves when there is a connection; rejects with STORE_UNAVAILABLE if none comes in time. */
  whenConnected(): Promise<void>;
  /** The call's answer. Rejects at once when the connection is lost, because then no answer comes. */
  answered<T>(call: () => Promise<T>): Promise<T>;
  /** Calls back on every loss and every return of the connection. Returns what ends that. */
  onConnectionChange(listener: (connected: boolean) => void): () => void;
}

/** The connections to NATS, with the buckets and the stream that Assay needs in place. */
export interface Broker extends BrokerConnection {
  /** For objects: what is sent on one connection arrives in order, so acknowledgements and records would wait behind an upload. */
  readonly bulk: BrokerConnection;
  /** For what has no call of its own in JetStream's client. */
  readonly connection: NatsConnection;
  bucket(name: BucketName): KV;
  /** Asks JetStream itself, so that a full disk shows too. Rejects with STORE_UNAVAILABLE. */
  ping(): Promise<void>;
  /** Resolves when a connection has ended for good, with the error if nobody asked for it. */
  readonly closed: Promise<Error | undefined>;
  close(): Promise<void>;
}

export interface BrokerOptions {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  /** How the broker's own monitoring names this client. */
  readonly name: string;
  readonly replicas: number;
  /** Buckets and streams that are to be of another size than usual; one that is there already is changed. */
  readonly sizes?: Sizes;
  /** Called before each retry while the broker is not ready, with a sentence that says why. */
  readonly onWaiting?: (message: string) => void;
}

type Sizes = Partial<Record<BucketName | typeof endedStream.name, number>>;

/** Reads `{"user": …, "password": …}`. */
export function readBrokerAuth(path: string): { user: string; password: string } {
  let parsed: unknown;
  try {
    parsed = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`ASSAY_NATS_AUTH_FILE: cannot read ${path}: ${(error as Error).message}`);
  }
  const { user, password } = (parsed ?? {}) as Record<string, unknown>;
  if (typeof user !== 'string' || typeof password !== 'string') {
    throw new ConfigError(`ASSAY_NATS_AUTH_FILE: ${path} holds no {"user": "…", "password": "…"}`);
  }
  return { user, password };
}

/** Pauses between two attempts to reach a broker that is not ready: the first, and the longest. */
const [firstPauseMs, longestPauseMs] = [250, 5_000];

/** Connects and makes what is missing. Retries for as long as the broker is not ready; rejects where it is not suitable. */
export async function connectBroker(options: BrokerOptions): Promise<Broker> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await openBroker(options);
    } catch (error) {
      if (!isNotReady(error)) throw error;
      const said = (error as Error).message;
      options.onWaiting?.(`the broker at ${hostsOf(options.url)} is not ready (${said}); retry in ${pauseMs} ms`);
      await delay(pauseMs);
    }
  }
}

/** Without the user and the password that a URL may hold. */
function hostsOf(urls: string): string {
  return urls
    .split(',')
    .map((url) => (URL.canParse(url) ? new URL(url).host : url.slice(url.indexOf('@') + 1)))
    .join(', ');
}

async function openBroker(options: BrokerOptions): Promise<Broker> {
  const [nc, bulk] = await connectTwice(options);
  const close = async (): Promise<void> => void (await Promise.all([nc.close(), bulk.close()]));
  const records = followConnection(nc);
  try {
    if (nc.info !== undefined) checkBrokerVersion(nc.info, options.replicas);
    const buckets = await prepare(nc, records.js, options.replicas, options.sizes ?? {});
    return {
      bulk: followConnection(bulk),
      connection: nc,
      ...records,
      get connected() {
        return records.connected;
      },
      bucket: (name) => buckets[name],
      ping: async () => {
        await records.whenConnected();
        await buckets.assay_workers.status().catch((error: unknown) => {
          throw storeUnavailable(error);
        });
      },
      closed: Promise.race([nc.closed(), bulk.closed()]).then((error) => (error instanceof Error ? error : undefined)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The connection for records, jobs and events, and the one for bulk transfers. */
async function connectTwice({ url, user, password, name }: BrokerOptions): Promise<[NatsConnection, NatsConnection]> {
  const settings = {
    ...{ servers: url.split(','), user, pass: password },
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 250,
    pingInterval: 10_000,
    timeout: storeTimeoutMs,
  };
  const first = await connect({ ...settings, name });
  try {
    return [first, await connect({ ...settings, name: `${name} bulk` })];
  } catch (error) {
    await first.close();
    throw error;
  }
}

async function prepare(
  nc: NatsConnection,
  js: JetStreamClient,
  replicas: number,
  sizes: Sizes,
): Promise<Record<BucketName, KV>> {
  const manager = await jetstreamManager(nc, { timeout: storeTimeoutMs });
  const kvm = new Kvm(js);
  const buckets: Partial<Record<BucketName, KV>> = {};
  for (const name of bucketNames) {
    const { maxAgeMs, maxBytes: usual } = bucketSpecs[name];
    const maxBytes = sizes[name] ?? usual;
    const kv = await kvm.create(name, {
      history: 1,
      ttl: maxAgeMs,
      max_bytes: maxBytes,
      storage: StorageType.File,
      replicas,
      timeout: storeTimeoutMs,
      // A direct get may be answered by a replica that lags; every read here must be at least as new as the last write.
      allow_direct: false,
    });
    const { config } = (await kv.status()).streamInfo;
    if (name in sizes && config.max_bytes !== maxBytes)
      await manager.streams.update(config.name, { max_bytes: maxBytes });
    buckets[name] = kv;
  }
  // The only way for a user who may publish nothing to read what was before: a consumer would have to be made.
  const events = await ensureStream(manager, eventStream, replicas, {
    ...{ retention: RetentionPolicy.Limits, allow_direct: true, max_msgs_per_subject: eventStream.maxOfOne },
  });
  if (events.config.max_msgs_per_subject !== eventStream.maxOfOne)
    await manager.streams.update(eventStream.name, { max_msgs_per_subject: eventStream.maxOfOne });
  await ensureStream(manager, jobStream, replicas, { retention: RetentionPolicy.Workqueue });
  const maxBytes = sizes[endedStream.name] ?? endedStream.maxBytes;
  const ended = await ensureStream(manager, { ...endedStream, maxBytes }, replicas, {
    ...{ retention: RetentionPolicy.Limits, discard: DiscardPolicy.New, max_msgs_per_subject: 1 },
  });
  if (endedStream.name in sizes && ended.config.max_bytes !== maxBytes)
    await manager.streams.update(endedStream.name, { max_bytes: maxBytes });
  return buckets as Record<BucketName, KV>;
}

interface StreamSpec {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly maxAgeMs: number;
  readonly maxBytes: number;
}

async function ensureStream(
  manager: JetStreamManager,
  { name, subjects, maxAgeMs, maxBytes }: StreamSpec,
  replicas: number,
  kind: Pick<StreamConfig, 'retention'> & Partial<StreamConfig>,
): Promise<StreamInfo> {
  return manager.streams.info(name).catch((error: unknown) => {
    if (!isStreamNotFound(error)) throw error;
    return manager.streams.add({
      ...kind,
      name,
      subjects: [...subjects],
      storage: StorageType.File,
      max_age: nanos(maxAgeMs),
      max_bytes: maxBytes,
      num_replicas: replicas,
    });
  });
}

function followConnection(nc: NatsConnection): BrokerConnection {
  let connected = true;
  const listeners = new Set<(connected: boolean) => void>();
  const change = (now: boolean): void => {
    if (now === connected) return;
    connected = now;
    for (const listener of [...listeners]) listener(now);
  };
  void (async () => {
    for await (const status of nc.status()) {
      if (status.type === 'disconnect' || status.type === 'close') change(false);
      if (status.type === 'reconnect') change(true);
    }
    change(false);
  })();
  const onConnectionChange = (listener: (connected: boolean) => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    js: jetstream(nc, { timeout: storeTimeoutMs }),
    get connected() {
      return connected;
    },
    onConnectionChange,
    answered: (call) =>
      new Promise((resolve, reject) => {
        const stop = onConnectionChange(() => reject(new Error('the connection to the broker was lost')));
        call().then(resolve, reject).finally(stop);
      }),
    whenConnected: () => (connected ? Promise.resolve() : connectionWithin(onConnectionChange)),
  };
}

/** A write sent without a connection would lie in a buffer and land long after its caller was told that it failed. */
function connectionWithin(onConnectionChange: BrokerConnection['onConnectionChange']): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = onConnectionChange(() => {
      clearTimeout(timer);
      stop();
      resolve();
    });
    const timer = setTimeout(() => {
      stop();
      const message = `the store has no connection to its broker since more than ${storeTimeoutMs} ms; try again`;
      reject(new DomainError('STORE_UNAVAILABLE', message));
    }, storeTimeoutMs);
  });
}
