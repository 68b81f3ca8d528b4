import { create, fromBinary } from '@bufbuild/protobuf';
import { jetstreamManager } from '@nats-io/jetstream';
import type { KV } from '@nats-io/kv';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EventSchema } from '../../../gen/assay/events/v1/events_pb.js';
import {
  KeyRecordSchema,
  type SessionRecord,
  SessionRecordSchema,
  WorkerRecordSchema,
} from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import type { BucketName } from '../../../services/shared/store/bucket-spec.ts';
import { createNatsKeyStore } from '../../../services/shared/store/nats-key-store.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import { createNatsWorkerStore } from '../../../services/shared/store/nats-worker-store.ts';
import { createRecordBucket } from '../../../services/shared/store/record-bucket.ts';
import { createRecordView } from '../../../services/shared/store/record-view.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

let nats: NatsProcess;
let broker: Broker;
const lost: unknown[] = [];

const open = (): Promise<Broker> =>
  connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
const storeOn = (on: Broker) => createNatsSessionStore({ broker: on, onEventLost: (error) => lost.push(error) });
const recordOf = (sessionId: string, workerId = 'w'): SessionRecord =>
  create(SessionRecordSchema, {
    project: 'p',
    session: { sessionId, state: SessionState.CREATING, workerId, env: { SECRET: 'x' } },
  });
const labelled = (record: SessionRecord, key: string): SessionRecord => {
  const session = record.session;
  if (session === undefined) throw new Error('no session');
  return { ...record, session: { ...session, labels: { ...session.labels, [key]: '1' } } };
};

beforeAll(async () => {
  nats = await startNats();
  broker = await open();
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

describe('the broker', () => {
  test('makes every bucket and stream with an age and a size, and once only', async () => {
    await (await open()).close();
    const nc = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    const manager = await jetstreamManager(nc);
    const infos = await manager.streams.list().next();
    await nc.close();
    expect(infos.map(({ config }) => config.name).sort()).toEqual([
      'ASSAY_ENDED_SESSIONS',
      'ASSAY_EVENTS',
      'ASSAY_JOBS',
      'KV_assay_keys',
      'KV_assay_reminders',
      'KV_assay_sessions',
      'KV_assay_validations',
      'KV_assay_verifications',
      'KV_assay_workers',
    ]);
    for (const { config } of infos) {
      expect(config.max_age).toBeGreaterThan(0);
      expect(config.max_bytes).toBeGreaterThan(0);
      expect(config.storage).toBe('file');
    }
  });

  test('keeps the last events of a session that changes for ever, and all of another', async () => {
    const nc = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    const { streams } = await jetstreamManager(nc);
    // As a stream that an earlier version has made.
    await streams.update('ASSAY_EVENTS', { max_msgs_per_subject: -1 });
    await (await open()).close();
    await broker.js.publish('assay.events.quiet.session.s', 'only');
    for (let count = 0; count < 150; count += 1) await broker.js.publish('assay.events.busy.session.s', 'again');
    const kept = (await streams.info('ASSAY_EVENTS', { subjects_filter: 'assay.events.*.session.s' })).state.subjects;
    await nc.close();
    expect(kept).toEqual({ 'assay.events.quiet.session.s': 1, 'assay.events.busy.session.s': 100 });
  });
});

describe('session records', () => {
  test('are made once', async () => {
    const store = storeOn(broker);
    expect(await store.create(recordOf('once'))).toBeDefined();
    expect(await store.create(recordOf('once', 'other'))).toBeUndefined();
    expect((await store.get('p', 'once'))?.value.session?.workerId).toBe('w');
    expect(await store.get('other-project', 'once')).toBeUndefined();
  });

  test('keep every one of many changes made at the same time through several connections', async () => {
    const brokers = await Promise.all([open(), open(), open()]);
    await storeOn(broker).create(recordOf('busy'));
    const stores = brokers.map(storeOn);
    const writes = stores.flatMap((store, writer) =>
      Array.from({ length: 12 }, (_, i) => store.update('p', 'busy', (record) => labelled(record, `w${writer}-${i}`))),
    );
    await Promise.all(writes);
    await Promise.all(brokers.map((each) => each.close()));
    const labels = (await storeOn(broker).get('p', 'busy'))?.value.session?.labels ?? {};
    expect(Object.keys(labels)).toHaveLength(36);
  });

  test('are left alone where the change is none, and there is no answer where there is no record', async () => {
    const store = storeOn(broker);
    const first = await store.create(recordOf('still'));
    expect((await store.update('p', 'still', () => undefined))?.revision).toBe(first?.revision);
    expect(await store.update('p', 'nobody', (record) => record)).toBeUndefined();
  });

  test('are found by their worker', async () => {
    const store = storeOn(broker);
    await Promise.all(Array.from({ length: 30 }, (_, i) => store.create(recordOf(`many${i}`, i % 2 ? 'odd' : 'even'))));
    expect(await store.ofWorker('odd')).toHaveLength(15);
    expect(await store.ofWorker('nobody')).toEqual([]);
  });

  test('publish an event for every write, without the variables of the session', async () => {
    const nc = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    const sub = nc.subscribe('assay.events.p.session.told', { max: 2 });
    await nc.flush();
    const store = storeOn(broker);
    await store.create(recordOf('told'));
    await store.update('p', 'told', (record) => labelled(record, 'a'));
    const told: [string, Record<string, string>, Record<string, string>][] = [];
    for await (const message of sub) {
      const { event } = fromBinary(EventSchema, message.data);
      const session = event.case === 'sessionChanged' ? event.value.session : undefined;
      told.push([message.headers?.get('Nats-Msg-Id') ?? '', session?.labels ?? {}, session?.env ?? {}]);
    }
    await nc.close();
    const revision = (await store.get('p', 'told'))?.revision;
    expect(told[1]).toEqual([`told.${revision}`, { a: '1' }, {}]);
    expect(lost).toEqual([]);
  });
});

test('worker registrations are a compare-and-set', async () => {
  const store = createNatsWorkerStore(broker);
  const record = create(WorkerRecordSchema, { workerId: 'w1', epoch: 1n });
  const first = await store.put(record, 0);
  expect(first).toBeDefined();
  expect(await store.put(record, 0)).toBeUndefined();
  expect(await store.put({ ...record, epoch: 2n }, first?.revision ?? 0)).toBeDefined();
  expect((await store.get('w1'))?.value.epoch).toBe(2n);
});

test('a view follows the store, tells its listeners, and sees own writes at once', async () => {
  const store = createNatsKeyStore(broker);
  const record = create(KeyRecordSchema, { key: { keyId: 'k1', project: 'p' } });
  await store.create(record);
  const errors: unknown[] = [];
  const view = createRecordView({
    broker,
    bucket: 'assay_keys',
    schema: KeyRecordSchema,
    now: () => performance.now(),
    onError: (error) => errors.push(error),
  });
  await view.whenWarm();
  expect(view.get('k1')?.value.key?.project).toBe('p');
  const changed = Promise.withResolvers<string | undefined>();
  view.subscribe('k1', ({ value }) => changed.resolve(value.key?.description));
  await store.update('k1', (found) => ({
    ...found,
    key: { ...(found.key as NonNullable<typeof found.key>), description: 'new' },
  }));
  expect(await changed.promise).toBe('new');
  const second = await store.create(create(KeyRecordSchema, { key: { keyId: 'k2' } }));
  if (second !== undefined) view.note('k2', second);
  expect(view.get('k2')).toBeDefined();
  view.close();
  expect(errors).toEqual([]);
});

describe('a record that is replaced in the moment somebody begins to read', () => {
  const bucket = 'assay_workers';
  const write = (n: number) => broker.bucket(bucket).put('worker', String(n));

  /** Runs `read` again and again, with a write at another moment of each. */
  async function whileWriting(read: () => Promise<void>): Promise<void> {
    await write(0);
    for (let n = 1; n <= 60; n++) {
      const reading = read();
      const at = performance.now() + (n % 20) / 8;
      while (performance.now() < at) await new Promise((resolve) => setImmediate(resolve));
      await write(n);
      await reading;
    }
  }

  test('holds up no view', async () => {
    await whileWriting(async () => {
      let watches = 0;
      const counting = (name: BucketName): KV => {
        const kv = broker.bucket(name);
        return Object.assign(Object.create(kv) as KV, {
          watch(...given: Parameters<KV['watch']>) {
            watches += 1;
            return kv.watch(...given);
          },
        });
      };
      const view = createRecordView({
        ...{ broker: Object.assign(Object.create(broker) as Broker, { bucket: counting }), bucket },
        ...{ schema: WorkerRecordSchema, now: () => performance.now(), onError: () => {} },
      });
      await view.whenWarm();
      view.close();
      // One that waits in vain is given up after some seconds, and another begun.
      expect(watches).toBe(1);
    });
  });

  test('breaks off no list', async () => {
    const records = createRecordBucket(broker, bucket, WorkerRecordSchema);
    await whileWriting(async () => {
      await records.all().catch((error: Error) => {
        // What is written here is no record; that it was read to its end is what matters.
        if (/broke off/.test(String(error.cause ?? error))) throw error;
      });
    });
  });
});
