import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Client, Session, VerificationInfo } from '../../clients/typescript/index.ts';
import { EventSchema } from '../../gen/assay/events/v1/events_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { freePort } from '../../scripts/stack/port.mjs';
import { getPage } from '../http-page.ts';
import { runDirectory } from '../run.ts';
import { startTestStack, type TestStack } from './stack.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
const hidden = ['the last number is part of the sum', 'a range of one number is that number'];
const fix = "sed -i 's/range(low, high))/range(low, high + 1))/' ranges.py";
const terminal = ['COMPLETED', 'ERROR', 'CANCELLED'];
let datasets: string;
let stack: TestStack;
let agent: Client;

let metricsAddress: string;
beforeAll(async () => {
  metricsAddress = `127.0.0.1:${await freePort()}`;
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  const folder = join(datasets, 'examples');
  mkdirSync(folder);
  cpSync(shipped, join(folder, 'hello-fix'), { recursive: true });
  // The same code and image, with tests that take their time.
  cpSync(shipped, join(folder, 'slow'), { recursive: true });
  const yaml = join(folder, 'slow/sample.yaml');
  writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('id: hello-fix', 'id: slow'));
  const run = join(folder, 'slow/tests/run.py');
  writeFileSync(run, `import time\ntime.sleep(50)\n${readFileSync(run, 'utf8')}`);
  stack = await startTestStack({
    env: { sessions: { ASSAY_DATASETS: datasets, ASSAY_METRICS_LISTEN: metricsAddress } },
  });
  agent = await stack.clientWith({ scopes: ['AGENT'] });
});
afterAll(async () => {
  await stack.stop();
  rmSync(datasets, { recursive: true, force: true });
});

const open = (id = 'hello-fix'): Promise<Session> =>
  stack.client.sessions.create({ sample: { dataset: 'examples', id } });

async function until(id: string, ...states: string[]): Promise<VerificationInfo> {
  for await (const info of stack.client.verifications.watch(id)) {
    if (states.includes(info.state)) return info;
    if (terminal.includes(info.state)) throw new Error(`${id} is ${info.state}: ${info.result?.reason}`);
  }
  throw new Error('the watch ended');
}

describe('a verification', () => {
  test('fails with the names of the tests, passes once it is mended, and tells it again without grading', async () => {
    await using session = await open();
    const first = await session.verify();
    expect(first.result).toMatchObject({
      verdict: 'FAILED',
      failedTests: hidden,
      trainable: true,
      reward: 0,
    });
    expect(first.result?.reason).toContain(hidden[0]);
    expect(first).toMatchObject({
      state: 'COMPLETED',
      attemptCount: 1,
      assurance: 'ISOLATED',
      submission: { fileCount: 0 },
    });
    await session.run(fix);
    const second = await session.verify();
    expect(second.result).toMatchObject({
      verdict: 'PASSED',
      testCount: 5,
      passedCount: 5,
      failedCount: 0,
      skippedCount: 0,
      reused: false,
      reward: 1,
    });
    expect(second.result?.passedTests).toHaveLength(5);
    expect(second.result?.tests.map(({ role }) => role).toSorted()[0]).toBe('FAIL_TO_PASS');
    expect(second.result?.steps.length).toBeGreaterThan(0);
    expect(second.result?.reportFormats).toEqual(['JUNIT']);
    expect(second.digests.submission).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(second.submission).toMatchObject({ fileCount: 1 });
    const third = await session.verify();
    expect(third).toMatchObject({ state: 'COMPLETED', reusedFrom: second.id, attemptCount: 0 });
    expect(third.result).toMatchObject({ verdict: 'PASSED', reused: true, passedTests: second.result?.passedTests });
    const forced = await session.verify({ force: true });
    expect(forced).toMatchObject({ reusedFrom: '', attemptCount: 1, result: { verdict: 'PASSED', reused: false } });
    const listed = await Array.fromAsync(stack.client.verifications.list({ sessionId: session.id }));
    expect(listed.map(({ id }) => id)).toEqual([forced.id, third.id, second.id, first.id]);
    expect(listed[0]?.result).toMatchObject({ passedCount: 5, passedTests: [], tests: [] });
  });

  test('of a session that was closed is graded, and graded again', async () => {
    const session = await open();
    await session.run(fix);
    const started = await stack.client.verifications.start(session.id, { force: true });
    await session.close();
    expect((await stack.client.verifications.ended(started.id)).result?.verdict).toBe('PASSED');
    const again = await stack.client.verifications.regrade(started.id);
    expect(again).toMatchObject({ regradeOf: started.id, digests: started.digests });
    expect((await stack.client.verifications.ended(again.id)).result).toMatchObject({
      verdict: 'PASSED',
      reused: false,
    });
  });

  test('tells an agent the verdict and the counts, and no name of a hidden test', async () => {
    const session = await agent.sessions.create({ sample: { dataset: 'examples', id: 'hello-fix' } });
    const info = await session.verify();
    expect(info.result).toMatchObject({ verdict: 'FAILED', testCount: 5, passedCount: 3, failedTests: [], tests: [] });
    expect(info.result?.stdout.length).toBe(0);
    const said = JSON.stringify(info);
    for (const name of hidden) expect(said).not.toContain(name);
    expect(said).not.toContain('sentinel');
    const events = [];
    const closing = session.close();
    for await (const event of session.follow()) if (event.type === 'verification') events.push(event);
    await closing;
    expect(events.map(({ state }) => state)).toContain('COMPLETED');
    expect(events.at(-1)).toMatchObject({ verificationId: info.id, verdict: 'FAILED', passedCount: 3, testCount: 5 });
  });

  test('is cancelled while it runs, and leaves nothing behind', async () => {
    await using session = await open('slow');
    const started = await stack.client.verifications.start(session.id);
    await until(started.id, 'RUNNING');
    const asked = await stack.client.verifications.cancel(started.id);
    expect(asked.cancelRequested).toBe(true);
    const ended = await stack.client.verifications.ended(started.id);
    expect(ended).toMatchObject({ state: 'CANCELLED', result: undefined });
    expect((await stack.client.verifications.cancel(started.id)).state).toBe('CANCELLED');
  });

  test('that ends after its session is told by whoever follows that, once and in its place', async () => {
    const session = await open('slow');
    const { verifications } = stack.client;
    const { id: verificationId } = await verifications.start(session.id);
    await until(verificationId, 'RUNNING');
    await session.close();
    const told = async (options = {}) =>
      (await Array.fromAsync(session.follow(options))).filter(
        ({ type }) => type === 'verification' || type === 'state',
      );
    const before = await told();
    for (const event of before) if (event.type === 'verification') expect(terminal).not.toContain(event.state);
    await verifications.cancel(verificationId);
    await verifications.ended(verificationId);
    const after = await told();
    expect(after.slice(0, -2)).toEqual(before.slice(0, -1));
    expect(after.slice(-2)).toMatchObject([{ verificationId, state: 'CANCELLED' }, { state: 'CLOSED' }]);
    for (const at of [-3, -2, -1]) {
      expect(await told({ cursor: after.at(at)?.cursor })).toEqual(after.slice(after.length + at + 1));
    }
  });

  test('that waits is cancelled at once', async () => {
    await using session = await open('slow');
    const { verifications } = stack.client;
    const running = [
      await verifications.start(session.id, { force: true }),
      await verifications.start(session.id, { force: true }),
    ];
    for (const { id } of running) await until(id, 'RUNNING');
    const waiting = await verifications.start(session.id, { force: true });
    expect((await verifications.cancel(waiting.id)).state).toBe('CANCELLED');
    for (const { id } of running) await verifications.cancel(id);
    for (const { id } of running) expect((await verifications.ended(id)).state).toBe('CANCELLED');
  });

  test('does not stop the agent, nor do its later changes reach it', async () => {
    await using session = await open();
    const ticking = session.execute('for i in $(seq 20); do echo $i; sleep 0.1; done');
    await session.run(fix);
    const { verifications } = stack.client;
    const mended = await verifications.start(session.id, { force: true });
    await session.run('git checkout -q ranges.py');
    const undone = await verifications.start(session.id, { force: true });
    let ticks = '';
    for await (const event of ticking) if (event.type === 'stdout') ticks += Buffer.from(event.data).toString();
    expect(ticks.trim().split('\n')).toHaveLength(20);
    expect((await verifications.ended(mended.id)).result?.verdict).toBe('PASSED');
    expect((await verifications.ended(undone.id)).result?.verdict).toBe('FAILED');
  });

  test('of a fork, and of a session that is paused, is like any other', async () => {
    await using session = await open();
    await session.run(fix);
    await using fork = await session.fork();
    await session.pause();
    const [paused, forked] = await Promise.all([session.verify({ force: true }), fork.verify({ force: true })]);
    expect(paused.result?.verdict).toBe('PASSED');
    expect(forked.result?.verdict).toBe('PASSED');
    expect(forked.digests.submission).toBe(paused.digests.submission);
    expect((await session.refresh()).paused).toBe(true);
  });

  test('is counted', async () => {
    const { text } = await getPage(`http://${metricsAddress}/metrics`);
    expect(text).toMatch(/^assay_verifications\{state="COMPLETED"\} [1-9]/m);
  });

  test('of something that cannot be submitted says so, without grading', async () => {
    await using session = await open();
    await session.run('mkfifo pipe');
    const info = await session.verify();
    expect(info).toMatchObject({
      state: 'COMPLETED',
      attemptCount: 0,
      result: { verdict: 'INVALID_SUBMISSION', trainable: true },
    });
    expect(info.result?.reason).toContain('pipe');
    await expect(stack.client.verifications.regrade(info.id)).rejects.toMatchObject({ reason: 'SUBMISSION_NOT_FOUND' });
  });

  test('has one request id once, and needs a session with a sample', async () => {
    await using session = await open();
    const { verifications } = stack.client;
    const [first, second] = await Promise.all([
      verifications.start(session.id, { requestId: 'once', force: true }),
      verifications.start(session.id, { requestId: 'once', force: true }),
    ]);
    expect(second.id).toBe(first.id);
    await expect(verifications.start(session.id, { requestId: 'once' })).rejects.toMatchObject({
      reason: 'REQUEST_ID_REUSED',
    });
    await verifications.ended(first.id);
    await using bare = await stack.client.sessions.create();
    await expect(verifications.start(bare.id)).rejects.toMatchObject({ reason: 'NO_SAMPLE' });
  });
});

describe('events', () => {
  let nc: NatsConnection;
  beforeAll(async () => {
    const auth = JSON.parse(readFileSync(stack.stack.eventsAuthFile ?? '', 'utf8'));
    nc = await connect({ servers: stack.stack.natsUrl, user: auth.user, pass: auth.password });
  });
  afterAll(() => nc.close());

  test('tell whoever may only read of every state', async () => {
    const told = new Map<string, string[]>();
    const heard = nc.subscribe('assay.events.*.verification.*', {
      callback: (_, message) => {
        const { event } = fromBinary(EventSchema, message.data);
        if (event.case !== 'verificationChanged') return;
        const { verificationId = '', state = 0 } = event.value.verification ?? {};
        told.set(verificationId, [...(told.get(verificationId) ?? []), VerificationState[state] ?? '']);
        for (const name of hidden) expect(Buffer.from(message.data).includes(name)).toBe(false);
      },
    });
    await nc.flush();
    await using session = await open();
    const { id } = await session.verify({ force: true });
    // The last word on another verification may still be on its way.
    await vi.waitFor(() => expect(told.get(id)).toContain('COMPLETED'), 120_000);
    expect(told.get(id)?.[0]).toBe('PENDING');
    expect(new Set(told.get(id))).toEqual(new Set(['PENDING', 'STARTING', 'RUNNING', 'COMPLETED']));
    heard.unsubscribe();
  });

  test('cannot be forged, nor jobs made, by whoever may only read', async () => {
    const refused: string[] = [];
    void (async () => {
      for await (const status of nc.status()) if (status.type === 'error') refused.push(String(status.error));
    })();
    nc.publish('assay.events.default.verification.ver_x', 'forged');
    nc.publish('assay.jobs.default.ver_x', 'forged');
    nc.publish('$KV.assay_verifications.default.ver_x', 'forged');
    await nc.flush();
    await vi.waitFor(() => expect(refused.length).toBeGreaterThanOrEqual(3), 120_000);
  });
});
