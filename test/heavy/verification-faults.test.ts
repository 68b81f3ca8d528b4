import type { ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import Docker from 'dockerode';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Session, VerificationInfo } from '../../clients/typescript/index.ts';
import { EventSchema } from '../../gen/assay/events/v1/events_pb.js';
import { VerificationJobSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { startSecondWorker, stopSecondWorker } from '../e2e/second-worker.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { runDirectory } from '../run.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
const fix = "sed -i 's/range(low, high))/range(low, high + 1))/' ranges.py";
/** What a verification goes through; it is pending before the first. */
const phases = ['PENDING', 'IMAGE', 'STARTING', 'PREPARING', 'RUNNING', 'READING'] as const;
/** A job that nobody keeps alive comes again after this. */
const ackWaitMs = 3_000;

let datasets: string;
let stack: TestStack;
let broker: NatsConnection;
/** Final states by verification, as the events tell them, once for each revision of its record. */
const finals = new Map<string, Map<bigint, string>>();

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  const folder = join(datasets, 'examples/slow');
  mkdirSync(dirname(folder));
  cpSync(shipped, folder, { recursive: true });
  const yaml = readFileSync(join(folder, 'sample.yaml'), 'utf8')
    .replace('id: hello-fix', 'id: slow')
    .replace('  command: python3 -I run.py\n', '  command: python3 -I run.py\n  prepare: {command: sleep 1}\n');
  writeFileSync(join(folder, 'sample.yaml'), yaml);
  const run = join(folder, 'tests/run.py');
  writeFileSync(run, `import time\ntime.sleep(1)\n${readFileSync(run, 'utf8')}`);
  stack = await startTestStack({
    env: {
      sessions: { ASSAY_DATASETS: datasets },
      worker: { ASSAY_JOB_ACK_SECONDS: String(ackWaitMs / 1_000) },
    },
  });
  await follow();
});
afterAll(async () => {
  await broker.close();
  await stack.stop();
  rmSync(datasets, { recursive: true, force: true });
});

/** Listens to the events as the services' own user, across restarts of the broker. */
async function follow(): Promise<void> {
  const { user, password } = JSON.parse(readFileSync(stack.stack.natsAuthFile, 'utf8'));
  const servers = stack.stack.natsUrl;
  broker = await connect({ servers, user, pass: password, maxReconnectAttempts: -1, reconnectTimeWait: 50 });
  broker.subscribe('assay.events.*.verification.*', {
    callback: (_, { data }) => {
      const { event } = fromBinary(EventSchema, data);
      const told = event.case === 'verificationChanged' ? event.value : undefined;
      const state = VerificationState[told?.verification?.state ?? 0] ?? '';
      if (told?.verification === undefined || !['COMPLETED', 'ERROR', 'CANCELLED'].includes(state)) return;
      const { verificationId } = told.verification;
      const seen = finals.get(verificationId) ?? new Map<bigint, string>();
      finals.set(verificationId, seen.set(told.revision, state));
    },
  });
}

async function mended(): Promise<Session> {
  const session = await stack.client.sessions.create({ sample: { dataset: 'examples', id: 'slow' } });
  await session.run(fix);
  return session;
}

/** Starts a verification, does something when it reaches the phase, and follows it to its end. */
async function verify(
  phase: (typeof phases)[number],
  act: (started: VerificationInfo) => unknown,
): Promise<VerificationInfo> {
  const { verifications } = stack.client;
  const session = await mended();
  const started = await verifications.start(session.id, { force: true });
  await session.close();
  const order = (info: VerificationInfo): number => phases.findIndex((name) => name === (info.phase ?? info.state));
  let acted = false;
  let last = started;
  for await (const info of verifications.watch(started.id)) {
    last = info;
    if (acted || order(info) < phases.indexOf(phase)) continue;
    acted = true;
    await act(started);
  }
  expect(acted).toBe(true);
  return last;
}

/**
 * The record says so, one event said so and none anything else, and no container of it is left. What is told while the
 * broker dies may not reach who listens then.
 */
async function endedOnce(info: VerificationInfo, state: string, brokerDied = false): Promise<void> {
  expect(info.state).toBe(state);
  const again = await stack.client.verifications.get(info.id);
  expect([again.state, again.result?.verdict]).toEqual([info.state, info.result?.verdict]);
  // A repetition has the same revision.
  const states = (): string[] => [...(finals.get(info.id)?.values() ?? [])];
  if (brokerDied) expect([[], [state]]).toContainEqual(states());
  else await expect.poll(states).toEqual([state]);
  await vi.waitFor(async () => expect(await containersOf(info.id)).toEqual([]), { timeout: 20_000, interval: 100 });
}

async function containersOf(verificationId: string): Promise<string[]> {
  const docker = new Docker({ socketPath: inject('setup').dockerSocket });
  const filters = { label: [`dev.assay.verification=${verificationId}`] };
  return (await docker.listContainers({ all: true, filters })).map(({ Id }) => Id);
}

async function passedOnce(info: VerificationInfo, brokerDied = false): Promise<void> {
  expect([info.state, info.result?.verdict, info.result?.reason]).toEqual(['COMPLETED', 'PASSED', expect.anything()]);
  await endedOnce(info, 'COMPLETED', brokerDied);
}

async function killAndWait(name: 'nats' | 'worker' | 'sessions'): Promise<void> {
  const before = stack.stack.restarts(name);
  expect(stack.stack.kill(name)).toBe(true);
  await vi.waitFor(() => expect(stack.stack.restarts(name)).toBeGreaterThan(before), { timeout: 20_000 });
  await stack.stack.ready();
}

describe.each(['worker', 'sessions', 'nats'] as const)('a verification survives the death of %s', (name) => {
  test.each(phases)('while it is %s', async (phase) => {
    const info = await verify(phase, () => killAndWait(name));
    await passedOnce(info, name === 'nats');
    // A worker that dies in the midst of it has begun in vain; what is as good as done may be done with.
    const inVain = name === 'worker' && (phase === 'PREPARING' || phase === 'RUNNING');
    expect(info.attemptCount).toBeGreaterThanOrEqual(inVain ? 2 : 1);
    expect(info.attemptCount).toBeLessThanOrEqual(name === 'worker' ? 2 : 1);
  });
});

describe('a verification is cancelled', () => {
  test.each(phases)('while it is %s', async (phase) => {
    const info = await verify(phase, ({ id }) => stack.client.verifications.cancel(id));
    // It may have ended in the same moment; then it says so and nothing else.
    if (phase === 'READING' && info.state === 'COMPLETED') return passedOnce(info);
    expect(info.result).toBeUndefined();
    await endedOnce(info, 'CANCELLED');
  });

  test('while its worker is dead', async () => {
    const info = await verify('RUNNING', async ({ id }) => {
      await stack.stack.halt('worker', 'SIGKILL');
      expect((await stack.client.verifications.cancel(id)).cancelRequested).toBe(true);
      stack.stack.start('worker');
    });
    await endedOnce(info, 'CANCELLED');
  });
});

describe('the queue', () => {
  test('delivers a job ten times more, and it is done once', async () => {
    const info = await verify('PREPARING', async ({ id }) => {
      const project = 'default';
      const job = toBinary(VerificationJobSchema, create(VerificationJobSchema, { project, verificationId: id }));
      for (let copy = 0; copy < 10; copy++) await broker.request(`assay.jobs.${project}.${id}`, job);
    });
    await passedOnce(info);
    expect(info.attemptCount).toBe(1);
    await vi.waitFor(async () => expect(await jobsLeft()).toBe(0), { timeout: 30_000, interval: 200 });
  });

  test('drops what is no job, and goes on', async () => {
    for (const data of ['', 'no protobuf', '\u0000'.repeat(1_000)])
      await broker.request('assay.jobs.default.poison', data);
    await passedOnce(await verify('PENDING', () => undefined));
    await vi.waitFor(async () => expect(await jobsLeft()).toBe(0), { timeout: 30_000, interval: 200 });
  });
});

async function jobsLeft(): Promise<number> {
  const answer = await broker.request('$JS.API.STREAM.INFO.ASSAY_JOBS');
  return answer.json<{ state: { messages: number } }>().state.messages;
}

describe('a second worker', () => {
  let second: ChildProcess | undefined;
  afterEach(() => stopSecondWorker(second));

  test('grades what a worker had begun that is lost for good', async () => {
    const info = await verify('RUNNING', async () => {
      await stack.stack.halt('worker', 'SIGKILL');
      second = startSecondWorker(stack, { ASSAY_JOB_ACK_SECONDS: String(ackWaitMs / 1_000) });
    });
    expect(info.attemptCount).toBe(2);
    const { endTime } = info;
    // What the dead one left on this machine is its own to remove, when it comes back after all.
    stack.stack.start('worker');
    await passedOnce(info);
    expect((await stack.client.verifications.get(info.id)).endTime).toEqual(endTime);
  });
});
