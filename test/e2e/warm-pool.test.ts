import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { rounds } from '../rounds.ts';
import { eventually } from './eventually.ts';
import { createGatedEngine } from './gated-engine.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

const size = 2;
const poll = { timeout: 120_000, interval: 50 };
let stack: TestStack;
let docker: Docker;
let metrics: MetricsPlace;
const made: Session[] = [];

beforeAll(async () => {
  docker = new Docker({ socketPath: inject('setup').dockerSocket });
  metrics = await chooseMetricsPlace();
  stack = await startTestStack({ env: { worker: { ...metrics.env, ASSAY_WARM_POOL: `base=${size}` } } });
});
afterAll(async () => {
  await Promise.all(made.map((session) => session.close()));
  await stack?.stop();
});

async function create(options: Parameters<TestStack['client']['sessions']['create']>[0] = {}): Promise<Session> {
  const session = await stack.client.sessions.create(options);
  made.push(session);
  return session;
}

async function containers(): Promise<Docker.ContainerInfo[]> {
  const label = [`dev.assay.installation=${stack.stack.installation}`];
  return docker.listContainers({ all: true, filters: { label } });
}

/** Resolves when the pool is full. What the server tells may be a heartbeat old, so the worker is asked. */
async function full(): Promise<void> {
  await expect.poll(async () => (await metrics.scrape()).get('warm_pool_sandboxes'), poll).toBe(size);
}

const told = async () => (await Array.fromAsync(stack.client.workers.list()))[0]?.warmCount;
const slots = () => readdirSync(join(stack.stack.dataDir, 'worker', 's'));
const text = async (session: Session, command: string) => String((await session.run(command)).stdout);

describe('a warm session', () => {
  test('is told from a cold one, has its own variables and names, and the pool is filled again', async () => {
    await full();
    expect((await stack.client.server.info()).capabilities).toContain('warm_pool');
    const session = await create({ env: { WHO: 'me' }, labels: { of: 'warm' } });
    expect(session.info).toMatchObject({ warm: true, state: 'READY', labels: { of: 'warm' }, env: { WHO: 'me' } });
    expect(await text(session, 'echo $WHO $HOME; pwd; id -un')).toBe('me /home/agent\n/workspace\nagent\n');
    expect((await session.refresh()).warm).toBe(true);
    expect(session.info.limits.pids).toBe(512);
    await full();
    await expect
      .poll(async () => (await containers()).flatMap(({ Names }) => Names), poll)
      .toContain(`/assay-${session.id}`);
  });

  test('takes text that is too long for an argument, and its executions are its own', async () => {
    await full();
    const session = await create();
    expect(session.info.warm).toBe(true);
    const filler = `: ${'x'.repeat(100_000)}\n`;
    expect(await text(session, `${filler}echo long`)).toBe('long\n');
    const [execution] = await Array.fromAsync(session.executions());
    expect(execution?.sessionId ?? session.id).toBe(session.id);
  });

  test('sees nothing of a session before it', async () => {
    await full();
    const first = await create({ env: { SECRET: 'first' } });
    await first.run('echo secret >~/secret; echo secret >/tmp/secret; (sleep 3600 &)');
    await first.close();
    await full();
    const second = await create();
    expect(second.info.warm).toBe(true);
    const look = 'ls -A ~ /tmp /workspace; env; ps -e -o args= 2>/dev/null || cat /proc/[0-9]*/cmdline | tr "\\0" " "';
    const seen = await text(second, look);
    expect(seen).not.toContain('secret');
    expect(seen).not.toContain('SECRET');
    expect(seen).not.toContain('sleep 3600');
  });

  test('is not given to whoever asks for something else', async () => {
    await full();
    const session = await create({ limits: { pids: 100 } });
    expect(session.info).toMatchObject({ warm: false, limits: { pids: 100 } });
    expect((await metrics.scrape()).get('warm_pool_sandboxes')).toBe(size);
    await expect.poll(told, poll).toBe(size);
  });

  test('is made once by one request id, however often it is sent', async () => {
    await full();
    const requestId = 'warm-once';
    const sessions = await Promise.all(Array.from({ length: 4 }, () => create({ requestId })));
    expect(new Set(sessions.map(({ id }) => id)).size).toBe(1);
    expect(await text(sessions[0] as Session, 'echo one')).toBe('one\n');
    await expect(create({ requestId, env: { other: '1' } })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
  });

  test('is one of many that ask at once: those that find none are made', async () => {
    await full();
    const takes = async (result: string) =>
      (await metrics.scrape()).get(`warm_pool_takes_total{result="${result}"}`) ?? 0;
    const before = { hits: await takes('hit'), misses: await takes('miss') };
    const sessions = await Promise.all(Array.from({ length: size + 2 }, () => create()));
    // One that is late may find one that was made meanwhile.
    const warm = sessions.filter(({ info }) => info.warm).length;
    expect(warm).toBe((await takes('hit')) - before.hits);
    expect(size + 2 - warm).toBe((await takes('miss')) - before.misses);
    expect(warm).toBeGreaterThanOrEqual(size);
    expect(await Promise.all(sessions.map((session) => text(session, 'echo here')))).toEqual(
      Array(size + 2).fill('here\n'),
    );
    await Promise.all(sessions.map((session) => session.close()));
  });

  test('can be paused, resumed, extended and closed, and leaves nothing', async () => {
    await full();
    const session = await create();
    expect(session.info.warm).toBe(true);
    expect((await session.pause()).paused).toBe(true);
    expect((await session.resume()).paused).toBe(false);
    await session.update({ ttlMs: 60_000 });
    expect(await text(session, 'echo still')).toBe('still\n');
    await session.close();
    await expect.poll(slots, poll).not.toContain(session.id);
    expect((await containers()).flatMap(({ Names }) => Names)).not.toContain(`/assay-${session.id}`);
  });
});

describe('a container of the pool', () => {
  test('that dies is replaced', async () => {
    await full();
    const waiting = (await containers()).find(({ Labels }) => inPool(Labels));
    await docker.getContainer(waiting?.Id ?? '').remove({ force: true });
    await expect.poll(() => inPool(waiting?.Labels ?? {}), poll).toBe(false);
    await full();
    const session = await create();
    expect(await text(session, 'echo alive')).toBe('alive\n');
  });
});

/** Whether the slot of a warm container still has the pool's name. */
function inPool(labels: Record<string, string>): boolean {
  return slots().includes(labels['dev.assay.warm'] ?? '');
}

describe('kill -9 of the worker', () => {
  test('with a filled pool leaves the warm sessions as they are and nothing else', async () => {
    await full();
    const session = await create({ env: { WHO: 'kept' } });
    expect(session.info.warm).toBe(true);
    await session.run('echo kept >/tmp/kept; echo $$ >/dev/null');
    await full();
    const before = (await containers()).filter(({ Labels }) => inPool(Labels)).map(({ Id }) => Id);
    expect(before).toHaveLength(size);
    await stack.stack.halt('worker', 'SIGKILL');
    stack.stack.start('worker');
    await stack.stack.ready();
    expect(await text(session, 'cat /tmp/kept; echo $WHO')).toBe('kept\nkept\n');
    expect((await session.refresh()).state).toBe('READY');
    await expect.poll(async () => (await containers()).filter(({ Id }) => before.includes(Id)), poll).toEqual([]);
    await full();
    const next = await create();
    expect(next.info.warm).toBe(true);
    expect(await text(next, 'echo new')).toBe('new\n');
  });

  test('again and again while sessions are made loses none that was answered and leaves none that was not', async () => {
    const ids: Session[] = [];
    for (let round = 0; round < rounds(2, 4); round += 1) {
      const creating = Array.from({ length: 3 }, () => create());
      if (round % 2 === 0) await Promise.race(creating);
      await stack.replace('worker');
      ids.push(...(await Promise.all(creating)));
    }
    for (const session of ids) expect(await text(session, 'echo there')).toBe('there\n');
    const listed = await Array.fromAsync(stack.client.sessions.list({ states: ['READY', 'CREATING', 'CLOSING'] }));
    const expected = new Set(listed.map(({ id }) => id));
    for (const { id } of ids) expect(expected).toContain(id);
    await Promise.all(listed.map(async ({ id }) => (await stack.client.sessions.get(id)).close()));
    await full();
    await expect.poll(() => slots().every((name) => name.startsWith('warm_')), poll).toBe(true);
    await expect.poll(async () => (await containers()).length, poll).toBe(size);
  });
});

describe.concurrent('a worker that is told to stop', () => {
  test.each(['close', 'keep'] as const)('with ASSAY_ON_STOP=%s leaves no warm container', async (onStop) => {
    const other = await startTestStack({ onStop, env: { worker: { ASSAY_WARM_POOL: 'base=1' } } });
    const label = [`dev.assay.installation=${other.stack.installation}`];
    const left = () => docker.listContainers({ all: true, filters: { label } });
    try {
      await eventually(async () => expect((await Array.fromAsync(other.client.workers.list()))[0]?.warmCount).toBe(1));
      expect(await left()).toHaveLength(1);
      await other.stack.halt('worker', 'SIGTERM');
      expect(await left()).toEqual([]);
      expect(readdirSync(join(other.stack.dataDir, 'worker', 's'))).toEqual([]);
    } finally {
      await other.stop();
    }
  });

  test('while it starts stops in order too', async () => {
    const engine = await createGatedEngine(inject('setup').dockerSocket);
    const other = await startTestStack({ env: { worker: { ASSAY_DOCKER_SOCKET: engine.path } } });
    try {
      await other.stack.halt('worker', 'SIGTERM');
      const said = (word: string) =>
        other.stack.lastLines('worker', 200).filter((line) => line.includes(`"${word}"`)).length;
      expect([said('ready'), said('stopping')]).toEqual([1, 1]);
      engine.close();
      other.stack.start('worker');
      await engine.called();
      const halted = other.stack.halt('worker', 'SIGTERM');
      await eventually(() => expect(said('stopping')).toBe(2));
      engine.open();
      await halted;
      expect(said('ready')).toBe(2);
    } finally {
      engine.open();
      await other.stop();
      engine.end();
    }
  });
});
