import { execFileSync } from 'node:child_process';
import { existsSync, rmSync, statfsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { getPage } from '../http-page.ts';
import { eventually } from './eventually.ts';
import { fillDisk, mayMount, mountSmallDisk, unmountSmallDisk } from './small-disk.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

const mebibyte = 1_048_576;
let stack: TestStack;
let metrics: MetricsPlace;

const health = () => getPage(`${stack.endpoint}/healthz`);
const filler = () => join(stack.stack.dataDir, 'filler');
const reserve = () => join(stack.stack.dataDir, 'worker', 'reserve');
const limits = { diskBytes: 64 * mebibyte };
const pressure = async () => (await Array.fromAsync(stack.client.workers.list()))[0]?.pressure;

describe.skipIf(!mayMount)('a worker whose disk fills up', () => {
  beforeAll(async () => {
    metrics = await chooseMetricsPlace();
    // It holds all that the stack writes: logs, broker, journals and the sessions' disks.
    stack = await startTestStack({
      prepare: (directory) => mountSmallDisk(directory, 512),
      env: { worker: metrics.env },
    });
  });
  afterAll(async () => {
    rmSync(filler(), { force: true });
    await stack.stack.stop();
    unmountSmallDisk(stack.stack.dataDir);
    await stack.stop();
  });

  afterEach(() => rmSync(filler(), { force: true }));

  test('takes no session that asks for more than its host has', async () => {
    const pids = Number(execFileSync('sysctl', ['-n', 'kernel.pid_max']));
    const asked = [
      { diskBytes: 2 ** 40 },
      { memoryBytes: 2 ** 40 },
      ...(pids < 4 * 65_536 ? [{ pids: Math.min(pids, 65_536) }] : []),
      ...(cpus().length < 64 ? [{ cpus: 64 }] : []),
    ];
    for (const limits of asked) {
      const refusal = await stack.client.sessions.create({ limits }).catch((error) => error);
      expect(refusal).toMatchObject({ reason: 'HOST_FULL', message: expect.stringContaining("the worker's host has") });
    }
  });

  test('pauses the session that writes, tells why, serves the others, and lets it go on when there is room', async () => {
    const limits = { diskBytes: 300 * mebibyte };
    const [writer, other] = await Promise.all([1, 2].map(() => stack.client.sessions.create({ limits })));
    if (writer === undefined || other === undefined) throw new Error('expected two sessions');
    const { bavail, bsize } = statfsSync(stack.stack.dataDir);
    execFileSync('fallocate', ['--length', String(bavail * bsize - 150 * mebibyte), filler()]);

    const writing = writer.execute('head -c 250M /dev/urandom >/tmp/big; sync; echo done', { timeoutMs: 600_000 });
    await eventually(async () => expect((await writer.refresh()).paused).toBe(true));
    expect(writer.info).toMatchObject({
      pauseReason: 'DISK_PRESSURE',
      message: expect.stringContaining('nearly full'),
    });
    await eventually(async () => expect(await pressure()).toContain('nearly full'));

    const full = { reason: 'HOST_FULL', message: expect.stringContaining('nearly full') };
    const calls: (() => Promise<unknown>)[] = [
      () => stack.client.sessions.create({ limits }),
      () => other.fork(),
      () => writer.run('true'),
      () => writer.resume(),
    ];
    // The broker writes to the same disk: while that is busy with what the session has written, the store may time out.
    for (const call of calls) await eventually(() => expect(call()).rejects.toMatchObject(full));
    expect(String((await other.run('echo here')).stdout)).toBe('here\n');
    const told = { status: 200, text: expect.stringContaining('nearly full') };
    await eventually(async () => expect(await health()).toMatchObject(told));
    const scraped = await metrics.scrape();
    expect(scraped.get('disk_pressure')).toBe(1);

    rmSync(filler());
    expect(await writing.result()).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 5 });
    await eventually(async () =>
      expect(await writer.refresh()).toMatchObject({ paused: false, pauseReason: undefined }),
    );
    await eventually(async () => expect(await pressure()).toBe(''));
    await (await other.fork()).close();
    await Promise.all([writer.close(), other.close()]);
  });

  test('starts on a disk that somebody has filled to the last byte, with its sessions, and takes new ones when there is room', async () => {
    const session = await stack.client.sessions.create({ limits });
    const running = session.execute('read line; echo "got $line"', { input: true });
    await running.started;
    await eventually(() => expect(existsSync(reserve())).toBe(true));
    // Of a worker that runs the reserve would be gone before the disk is full.
    await stack.stack.halt('worker', 'SIGKILL');
    fillDisk(filler());
    stack.stack.kill('nats');
    stack.stack.kill('sessions');
    stack.stack.start('worker');
    await stack.stack.ready();
    await eventually(() => expect(existsSync(reserve())).toBe(false));
    await eventually(async () => expect((await health()).status).toBe(200));
    await eventually(async () => expect(await pressure()).toContain('nearly full'));
    await running.stdin.end('this\n');
    expect(await running.result()).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 9 });
    rmSync(filler());
    await eventually(async () => expect(await pressure()).toBe(''));
    await (await stack.client.sessions.create({ limits })).close();
    await session.close();
  });

  test('keeps its sessions without a free byte, whoever dies meanwhile, and serves again by itself when there is room', async () => {
    const session = await stack.client.sessions.create({ limits });
    const running = session.execute('read line; echo "got $line"', { input: true });
    await running.started;
    await eventually(() => expect(existsSync(reserve())).toBe(true));
    fillDisk(filler());
    // What the worker gives up is for the services; here another program takes it as well.
    await eventually(() => expect(existsSync(reserve())).toBe(false));
    fillDisk(filler());
    await eventually(async () => expect((await health()).text).toContain('"serving":true'));
    for (const name of ['worker', 'nats', 'sessions'] as const) {
      const before = stack.stack.restarts(name);
      stack.stack.kill(name);
      await eventually(() => expect(stack.stack.restarts(name)).toBeGreaterThan(before));
    }
    rmSync(filler());
    await stack.stack.ready();
    await running.stdin.end('room\n');
    expect(await running.result()).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 9 });
    await eventually(() => expect(existsSync(reserve())).toBe(true));
    await session.close();
    await (await stack.client.sessions.create({ limits })).close();
  });
});
