import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { listContainers } from '../leftovers.ts';
import { runId } from '../run.ts';
import {
  logOf,
  notOwnedBelow,
  type OtherUsersStack,
  obstacleToOtherUser,
  removeOtherUsersData,
  startOtherUsersStack,
} from './other-user.ts';

const mebibyte = 1_048_576;
const obstacle = obstacleToOtherUser();
const why = obstacle === undefined ? '' : ` (skipped: ${obstacle})`;

describe.skipIf(obstacle !== undefined)(`a worker without root${why}`, () => {
  let stack: OtherUsersStack;
  let session: Session;

  beforeAll(async () => {
    stack = await startOtherUsersStack({
      worker: { ASSAY_WARM_POOL: '0', ASSAY_GRADING_POOL: '0', ASSAY_ALLOW_UNLIMITED_DISK: 'true' },
    });
    session = await stack.client.sessions.create({ limits: { memoryBytes: 128 * mebibyte, diskBytes: 64 * mebibyte } });
  });
  afterAll(async () => {
    await stack?.stop();
    if (stack !== undefined) removeOtherUsersData(stack.dataDir);
  });

  /** The processes in the session whose command line has this word. */
  async function processesWith(word: string): Promise<string> {
    const script = `for p in /proc/[0-9]*; do [ $p != /proc/$$ ] && tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -a ${word}; done; true`;
    const lines = String((await session.run(script)).stdout).split('\n');
    return lines.filter((line) => line !== '' && !line.includes('for p in')).join('\n');
  }

  test('tells what it cannot do by what is missing in its capabilities, and no limit that is not in force', async () => {
    const { capabilities } = await stack.client.server.info();
    expect(capabilities).toEqual(['verification']);
    expect(session.info.limits).toEqual({ cpus: 1, memoryBytes: 128 * mebibyte, pids: 512 });
  });

  test('runs commands, shells, input and terminals', async () => {
    const { stdout, result } = await session.run('id -un; echo x >/workspace/file; cat /workspace/file; echo >&2');
    expect(String(stdout)).toBe('agent\nx\n');
    expect(result.cpuTimeMs).toBeGreaterThan(0);
    expect(result.peakMemoryBytes).toBeGreaterThan(100_000);
    expect(String((await session.run('tr a-z A-Z', { input: 'typed' })).stdout)).toBe('TYPED');
    const shell = await session.openShell();
    await shell.run('cd /tmp; export A=1; f() { echo f $A; }');
    expect(await shell.run('sleep 7005', { timeoutMs: 200 })).toMatchObject({ reason: 'TIMED_OUT' });
    expect(String((await shell.run('f; pwd')).stdout)).toBe('f 1\n/tmp\n');
    const onTerminal = await session.run('stty size', { terminal: { rows: 10, columns: 33 } });
    expect(String(onTerminal.stdout)).toContain('10 33');
  });

  test('ends every process of a command whose time is up, wherever it hides', async () => {
    const script = `
      setsid sleep 7001 &
      (setsid sh -c 'sleep 7002 & ' &)
      sh -c 'trap "" TERM; while :; do sleep 7003; done' &
      python3 -c 'import os,time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(7004)
    os._exit(0)'
      sleep 7005`;
    const run = session.execute(script, { timeoutMs: 1_000 });
    expect((await run.result()).reason).toBe('TIMED_OUT');
    expect(await processesWith('700[1-5]')).toBe('');
  });

  test('tells what was killed for memory, in a shell too, and its neighbours nothing of it', async () => {
    const neighbour = session.execute('cat >/dev/null; exit 8', { input: true });
    const hog = `python3 -c 'x = bytearray(10**9)'`;
    expect(await session.run(hog)).toMatchObject({ reason: 'OUT_OF_MEMORY' });
    const shell = await session.openShell();
    expect(await shell.run(hog)).toMatchObject({ reason: 'OUT_OF_MEMORY' });
    expect(await session.run('kill -9 $$')).toMatchObject({ reason: 'SIGNALED', signal: 9 });
    await neighbour.stdin.end();
    expect(await neighbour.result()).toMatchObject({ reason: 'EXITED', exitCode: 8 });
  });

  test('refuses networks and forks before anything is made, and says why', async () => {
    for (const mode of ['EGRESS', 'FULL'] as const) {
      await expect(stack.client.sessions.create({ network: { mode } })).rejects.toMatchObject({
        reason: 'NETWORK_NOT_OFFERED',
        message: expect.stringContaining('needs root'),
      });
    }
    await expect(session.fork()).rejects.toMatchObject({
      reason: 'FORK_NOT_OFFERED',
      message: expect.stringContaining('needs root'),
    });
    expect(await Array.fromAsync(stack.client.sessions.list())).toHaveLength(1);
  });

  test('comes back with its sessions after a kill -9', async () => {
    const execution = session.execute('cat', { input: true });
    await execution.stdin.write('before ');
    process.kill(stack.workerPid, 'SIGKILL');
    await vi.waitFor(() => expect(logOf(stack.dataDir, 'worker').match(/"msg":"ready"/g)).toHaveLength(2), 120_000);
    await execution.stdin.write('after');
    await execution.stdin.end();
    expect(await execution.result()).toMatchObject({ reason: 'EXITED', stdoutBytes: 12 });
    expect(String((await session.run('cat /workspace/file')).stdout)).toBe('x\n');
  });

  test('grades: failed, mended, passed', async () => {
    await using task = await stack.client.sessions.create({ sample: { dataset: 'examples', id: 'hello-fix' } });
    expect((await task.verify()).result).toMatchObject({ verdict: 'FAILED', assurance: 'ISOLATED' });
    await task.run("sed -i 's/range(low, high))/range(low, high + 1))/' ranges.py");
    expect((await task.verify()).result).toMatchObject({ verdict: 'PASSED', trainable: true });
  });

  test('leaves nothing behind when it is stopped, and nothing that its user could not remove', async () => {
    await stack.stop();
    expect(logOf(stack.dataDir, 'worker')).not.toContain('"level":50');
    for (const slots of ['s', 'g', 'sealing']) expect(readdirSync(join(stack.dataDir, 'worker', slots))).toEqual([]);
    expect(logOf(stack.dataDir, 'worker').match(/"msg":"ready"/g)).toHaveLength(2);
    expect(notOwnedBelow(stack.dataDir)).toEqual([]);
    const containers = await listContainers(inject('setup').dockerSocket);
    const ours = containers.filter(({ Labels }) => Labels['dev.assay.installation'] === `${runId()}-${process.pid}-o`);
    expect(ours).toEqual([]);
  });
});
