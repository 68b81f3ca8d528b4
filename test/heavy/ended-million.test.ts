import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { typeid } from 'typeid-js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type SessionRecord, SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState, TranscriptState } from '../../gen/assay/v1/session_pb.js';
import { type Broker, connectBroker, readBrokerAuth } from '../../services/shared/store/broker.ts';
import { endedStream } from '../../services/shared/store/bucket-spec.ts';
import { archiveBytes, createNatsSessionArchive } from '../../services/shared/store/nats-session-archive.ts';
import { sessionKey } from '../../services/shared/store/nats-session-store.ts';
import { createRecordBucket, type RecordBucket } from '../../services/shared/store/record-bucket.ts';
import { answered } from '../../services/shared/store/repeatable.ts';
import type { SessionArchive } from '../../services/shared/store/session-archive.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { processCost } from './process-cost.ts';

const total = Number(process.env.ASSAY_TEST_ENDED ?? 1_000_000);
/** One record in so many belongs to the small project; it is among the others in every block of the broker's files. */
const smallEvery = 500;
/** One in so many goes the whole way: into the bucket of live sessions, and from there by the service's own keeper. */
const wholeWayEvery = 10;
const lanes = 100;
const dayMs = 86_400_000;
const mebibyte = 1_048_576;
/** Of all streams together (`scripts/stack/broker-config.mjs`). */
const storeLimit = 16 * 1_024 * mebibyte;
/** Where a keeper stops: what it archives in one sweep never reaches the last sixteenth. */
const brim = 15 / 16;

let stack: TestStack;
let broker: Broker;
let archive: SessionArchive;
let bucket: RecordBucket<typeof SessionRecordSchema>;

beforeAll(async () => {
  stack = await startTestStack();
  broker = await connectBroker({
    ...{ url: stack.stack.natsUrl, ...readBrokerAuth(stack.stack.natsAuthFile), name: 'a million', replicas: 1 },
  });
  archive = createNatsSessionArchive(broker);
  bucket = createRecordBucket(broker, 'assay_sessions', SessionRecordSchema);
}, 600_000);
afterAll(async () => {
  await broker?.close();
  await stack?.stop();
}, 600_000);

/** As the product has them when they have ended, spread over the last thirty days in the order in which they ended. */
function endedRecord(at: number, project: string): SessionRecord {
  const createMs = Date.now() - 30 * dayMs + Math.floor((at / total) * 29 * dayMs);
  return create(SessionRecordSchema, {
    project,
    activeTime: timestampFromMs(createMs),
    session: {
      sessionId: typeid('ses').toString(),
      state: at % 10 === 1 ? SessionState.FAILED : SessionState.CLOSED,
      image: 'debian:12',
      labels: { run: String(at), purpose: 'x'.repeat(400) },
      createTime: timestampFromMs(createMs),
      expireTime: timestampFromMs(createMs + 3_600_000),
      endTime: timestampFromMs(createMs + 60_000),
      workerId: 'worker-of-the-past',
      limits: { cpus: 1, memoryBytes: 536_870_912n, diskBytes: 1_073_741_824n, pids: 512 },
      endReason: SessionEndReason.CLOSED_BY_CALLER,
      message: 'CloseSession was called',
      transcriptState: TranscriptState.STORED,
    },
  });
}

/** Lets those who archive go on while there is as much room as a keeper asks for. */
function createGate() {
  let left = 0;
  let refill: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const { bytes, maxBytes } = await archive.room();
    left = maxBytes * brim - bytes - lanes * mebibyte * 0.01;
    if (left <= 0) await delay(100);
    refill = undefined;
  };
  return async (bytes: number): Promise<void> => {
    while (left < bytes) {
      refill ??= look();
      await refill;
    }
    left -= bytes;
  };
}

/** Writes all records, and resolves with the ids of those of the small project. */
async function flood(onRecord: () => void): Promise<Set<string>> {
  const small = new Set<string>();
  const pass = createGate();
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < total) {
      const at = next++;
      const project = at % smallEvery === 0 ? 'default' : 'greedy';
      const record = endedRecord(at, project);
      const id = record.session?.sessionId ?? '';
      if (project === 'default') small.add(id);
      if (at % wholeWayEvery === 3) {
        if ((await bucket.compareAndSet(sessionKey(project, id), record, 0)) === undefined)
          throw new Error('a conflict');
      } else {
        await pass(archiveBytes(record));
        await archive.add(record);
      }
      onRecord();
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return small;
}

interface Look {
  readonly archiveBytes: number;
  readonly bucketBytes: number;
  readonly bucketRecords: number;
  /** What JetStream counts of its limit. */
  readonly storeBytes: number;
  /** What the file system has given to the files of the archive, and to all files of the broker. */
  readonly archiveDisk: number;
  readonly disk: number;
  readonly sessionsKib: number;
  readonly workerKib: number;
  readonly natsKib: number;
}

const residentKib = (name: 'sessions' | 'worker' | 'nats') => processCost(stack.stack.pids[name] ?? 0).residentKib;
const kibOn = (directory: string) => Number(execFileSync('du', ['-sk', directory]).toString().split('\t')[0]) * 1_024;

async function look(): Promise<Look> {
  const manager = await broker.js.jetstreamManager(false);
  const account = answered(broker, () => manager.getAccountInfo());
  const [room, live, { storage }] = await Promise.all([archive.room(), bucket.room(), account]);
  const store = join(stack.stack.dataDir, 'nats', 'store');
  return {
    archiveBytes: room.bytes,
    bucketBytes: live.bytes,
    bucketRecords: live.records,
    storeBytes: storage,
    archiveDisk: kibOn(join(store, 'jetstream', 'ASSAY', 'streams', endedStream.name)),
    disk: kibOn(store),
    sessionsKib: residentKib('sessions'),
    workerKib: residentKib('worker'),
    natsKib: residentKib('nats'),
  };
}

/** Makes, changes, uses and ends sessions one after the other until it is told to stop. Resolves with how long each took. */
async function live(isOver: () => boolean): Promise<number[]> {
  const times: number[] = [];
  do {
    const began = performance.now();
    const session = await stack.client.sessions.create({ labels: { live: 'yes' } });
    await session.update({ ttlMs: 600_000 });
    expect(String((await session.run('echo here')).stdout)).toBe('here\n');
    await session.close();
    times.push(performance.now() - began);
  } while (!isOver());
  return times;
}

async function listed(): Promise<Set<string>> {
  const found = new Set<string>();
  for await (const { id } of stack.client.sessions.list({ states: ['CLOSED', 'FAILED'] })) found.add(id);
  return found;
}

test(`${total} ended sessions never fill a store, and cost only the project that has most of them its oldest`, async () => {
  const before = await look();
  const looks: Look[] = [];
  let written = 0;
  let missed = 0;
  let over = false;
  const watching = (async () => {
    while (!over) {
      // A broker that evicts may answer nobody for seconds.
      await look().then(
        (found) => looks.push(found),
        () => (missed += 1),
      );
      await delay(2_000);
    }
  })();
  let flooded = false;
  const living = live(() => flooded);
  const began = performance.now();
  const small = await flood(() => (written += 1));
  const floodMs = performance.now() - began;
  flooded = true;
  const times = await living;
  // The last ones are held in the bucket for a minute after they were archived.
  await vi.waitUntil(async () => (await bucket.room()).records < 10, { timeout: 300_000, interval: 1_000 });
  over = true;
  await watching;
  const after = await look();
  const { records } = await archive.room();
  const ids = await listed();
  const lastMs = await live(() => true);
  await stack.replace('sessions');
  const loadBegan = performance.now();
  await vi.waitUntil(
    () =>
      listed().then(
        (found) => found.size >= small.size,
        () => false,
      ),
    { timeout: 300_000 },
  );
  const loadMs = performance.now() - loadBegan;
  const restarted = await look();

  const most = (of: (found: Look) => number) => Math.max(...looks.map(of));
  const mib = (bytes: number) => (bytes / mebibyte).toFixed(0);
  const kib = (of: (found: Look) => number) =>
    [of(before), most(of), of(after), of(restarted)].map((found) => (found / 1_024).toFixed(0)).join(' / ');
  const log = readFileSync(join(stack.stack.dataDir, 'logs', 'sessions.log'), 'utf8').split('\n');
  const evictions = log.filter((line) => line.includes('are evicted')).length;
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
  console.log(
    [
      `${written} records in ${(floodMs / 1_000).toFixed(0)} s, ${evictions} evictions, ${records} left, ${missed} looks without an answer`,
      `archive: at most ${mib(most((found) => found.archiveBytes))} of ${mib(endedStream.maxBytes)} MiB, on disk ${mib(most((found) => found.archiveDisk))}, in the end ${mib(after.archiveDisk)} MiB`,
      `bucket of live sessions: at most ${most((found) => found.bucketRecords)} records, ${mib(most((found) => found.bucketBytes))} MiB`,
      `store: at most ${mib(most((found) => found.storeBytes))} of ${mib(storeLimit)} MiB, on disk ${mib(most((found) => found.disk))}, in the end ${mib(after.disk)} MiB`,
      `resident before / at most / after / started again: sessions ${kib((found) => found.sessionsKib)}, worker ${kib((found) => found.workerKib)}, broker ${kib((found) => found.natsKib)} MiB`,
      `live sessions meanwhile: ${times.length}, p50 ${median(times).toFixed(0)} ms, longest ${Math.max(...times).toFixed(0)} ms; after: ${lastMs[0]?.toFixed(0)} ms`,
      `the small project: ${small.size} of ${small.size} kept, listed ${ids.size}; loaded again in ${(loadMs / 1_000).toFixed(1)} s`,
    ].join('\n'),
  );
  expect(written).toBe(total);
  expect([...small].filter((id) => !ids.has(id))).toEqual([]);
  expect(await archive.get('default', [...small][0] ?? '')).toBeDefined();
  expect(log.filter((line) => line.includes('could not be archived'))).toEqual([]);
  expect(most((found) => found.archiveBytes)).toBeLessThan(endedStream.maxBytes);
  expect(most((found) => found.storeBytes)).toBeLessThan(storeLimit);
  expect(stack.stack.restarts('nats') + stack.stack.restarts('worker')).toBe(0);
  expect(most((found) => found.workerKib) - before.workerKib).toBeLessThan(100 * 1_024);
}, 1_800_000);
