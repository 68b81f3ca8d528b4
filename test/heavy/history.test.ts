import { setTimeout as delay } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { typeid } from 'typeid-js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { type SessionRecord, SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState, TranscriptState } from '../../gen/assay/v1/session_pb.js';
import { connectBroker, readBrokerAuth } from '../../services/shared/store/broker.ts';
import { createNatsSessionArchive } from '../../services/shared/store/nats-session-archive.ts';
import { createConnection } from '../e2e/raw-client.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { processCost } from './process-cost.ts';

const history = Number(process.env.ASSAY_TEST_HISTORY ?? 200_000);
const live = 20;
const idleMs = 10_000;
const streamMs = 20_000;
const rounds = 30;
const hourMs = 3_600_000;

/** Two whole systems side by side, so that whatever else the machine does is done to both. */
const connections = new Map<string, ReturnType<typeof createConnection>>();
let empty: TestStack;
let old: TestStack;

beforeAll(async () => {
  empty = await startTestStack();
  old = await startTestStack();
  await writeHistory(old);
  for (const stack of [empty, old]) for (const name of ['worker', 'sessions'] as const) await stack.replace(name);
  // A service that has just started still reads where its ended sessions are.
  const isLoaded = () =>
    listed(old, { states: [SessionState.CLOSED], pageSize: 1 }).then(
      () => true,
      () => false,
    );
  await vi.waitUntil(isLoaded, { timeout: 120_000 });
}, 1_800_000);
afterAll(async () => {
  await old?.stop();
  await empty?.stop();
}, 600_000);

/** As the product has them when they have ended, half of them in the project that is measured. */
function endedRecord(at: number, startMs: number): SessionRecord {
  const createTime = timestampFromMs(startMs + at);
  return create(SessionRecordSchema, {
    project: at % 2 === 0 ? 'default' : `project-${at % 50}`,
    activeTime: createTime,
    session: {
      sessionId: typeid('ses').toString(),
      state: at % 10 === 1 ? SessionState.FAILED : SessionState.CLOSED,
      image: 'debian:12',
      labels: { run: String(at), purpose: 'history' },
      createTime,
      expireTime: timestampFromMs(startMs + at + hourMs),
      endTime: timestampFromMs(startMs + at + 60_000),
      workerId: 'worker-of-the-past',
      limits: { cpus: 1, memoryBytes: 536_870_912n, diskBytes: 1_073_741_824n, pids: 512 },
      endReason: SessionEndReason.CLOSED_BY_CALLER,
      message: 'CloseSession was called',
      transcriptState: TranscriptState.STORED,
    },
  });
}

async function writeHistory({ stack }: TestStack): Promise<void> {
  const broker = await connectBroker({
    ...{ url: stack.natsUrl, ...readBrokerAuth(stack.natsAuthFile), name: 'history', replicas: 1 },
  });
  const archive = createNatsSessionArchive(broker);
  const startMs = Date.now() - 2 * history - hourMs;
  const rest = Array.from({ length: history }, (_, at) => at).values();
  const lane = async () => {
    for (const at of rest) await archive.add(endedRecord(at, startMs));
  };
  await Promise.all(Array.from({ length: 100 }, lane));
  expect((await archive.room()).records).toBe(history);
  await broker.close();
}

const worker = ({ stack }: TestStack) => processCost(stack.pids.worker ?? 0);
const sessions = ({ stack }: TestStack) => processCost(stack.pids.sessions ?? 0);
const both = <T>(work: (stack: TestStack) => Promise<T>) => Promise.all([work(empty), work(old)]);

/** The median of several looks at a worker that nobody asks for anything. */
async function idlePercent(stack: TestStack): Promise<number> {
  const looks: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    const before = worker(stack).ticks;
    await delay(idleMs);
    looks.push(((worker(stack).ticks - before) * 10 * 100) / idleMs);
  }
  return median(looks);
}

/** The longest time without a line of a program that prints one every 50 ms. */
async function longestPause(session: Session): Promise<number> {
  const lines = Math.floor(streamMs / 50);
  const execution = session.execute(`i=0; while [ $i -lt ${lines} ]; do echo $i; i=$((i+1)); sleep 0.05; done`);
  let longest = 0;
  let last: number | undefined;
  for await (const event of execution) {
    if (event.type !== 'stdout') continue;
    const now = performance.now();
    longest = Math.max(longest, now - (last ?? now));
    last = now;
  }
  return longest;
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
async function timed(into: number[], work: () => Promise<unknown>): Promise<void> {
  const began = performance.now();
  await work();
  into.push(performance.now() - began);
}

interface Times {
  readonly create: number[];
  readonly list: number[];
  readonly close: number[];
}

/** One call of each kind, with the same answer on either side: the page is full of live sessions. */
async function round(stack: TestStack, times: Times): Promise<void> {
  let session: Session | undefined;
  await timed(times.create, async () => {
    session = await stack.client.sessions.create({});
  });
  await timed(times.list, () => listed(stack, { pageSize: live }));
  await timed(times.close, async () => session?.close());
}

async function listed(
  { endpoint, key }: TestStack,
  query: { pageSize: number; states?: SessionState[] },
): Promise<void> {
  const connection = connections.get(endpoint) ?? createConnection(endpoint, key);
  connections.set(endpoint, connection);
  const page = await connection.sessions.listSessions(query);
  expect(page.sessions).toHaveLength(query.pageSize);
}

test(`${history} ended sessions cost an idle worker, a stream, and those who create, list and close nothing`, async () => {
  const held = await both(({ client }) => Promise.all(Array.from({ length: live }, () => client.sessions.create({}))));
  const times = [0, 1].map((): Times => ({ create: [], list: [], close: [] }));
  for (let i = 0; i < rounds; i += 1) {
    for (const [at, stack] of [empty, old].entries()) await round(stack, times[at] as Times);
  }
  const [pauseEmpty, pauseOld] = await Promise.all(held.map(([session]) => longestPause(session as Session)));
  const ended: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    await timed(ended, () => listed(old, { states: [SessionState.CLOSED], pageSize: 100 }));
  }
  const rss = [worker, sessions].map((of) => [of(empty), of(old)].map(({ residentKib }) => residentKib / 1_024));
  await Promise.all(held.flat().map((session) => session.close()));
  const [idleEmpty, idleOld] = await both(idlePercent);
  const ratio = (kind: keyof Times) => median(times[1]?.[kind] ?? []) / median(times[0]?.[kind] ?? []);
  const table = Object.keys(times[0] ?? {}).map((kind) => {
    const [without = 0, with_ = 0] = times.map((each) => median(each[kind as keyof Times]));
    return `${kind}: ${without.toFixed(1)} ms / ${with_.toFixed(1)} ms`;
  });
  console.log(
    [
      `without / with ${history} ended sessions`,
      `idle worker: ${idleEmpty.toFixed(2)} % / ${idleOld.toFixed(2)} % of a core`,
      `resident worker: ${rss[0]?.map((mib) => mib.toFixed(0)).join(' / ')} MiB, sessions service: ${rss[1]?.map((mib) => mib.toFixed(0)).join(' / ')} MiB`,
      `longest pause of 20 lines a second: ${pauseEmpty?.toFixed(0)} / ${pauseOld?.toFixed(0)} ms`,
      ...table,
      `a page of 100 ended sessions: ${median(ended).toFixed(1)} ms`,
    ].join('\n'),
  );
  expect(idleOld).toBeLessThanOrEqual(Math.max(1, 1.2 * idleEmpty));
  expect((rss[0]?.[1] ?? 0) - (rss[0]?.[0] ?? 0)).toBeLessThanOrEqual(30);
  // A machine with other things to do pauses both.
  expect(pauseOld).toBeLessThanOrEqual(Math.max(250, 1.2 * (pauseEmpty ?? 0)));
  for (const kind of ['create', 'list', 'close'] as const) expect(ratio(kind), kind).toBeLessThanOrEqual(1.2);
});
