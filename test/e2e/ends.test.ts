import { statfsSync } from 'node:fs';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { printed } from './printed.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { timedOutBeyond } from './timed-out.ts';

let stack: TestStack;
let session: Session;
const mebibyte = 1_048_576;
const diskBytes = 128 * mebibyte;
/** What other tests may take of the same disk meanwhile. A filler without a limit would take more than both. */
const slackBytes = 1_024 * mebibyte;

beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create({
    limits: { memoryBytes: 256 * mebibyte, pids: 128, diskBytes: 128 * mebibyte },
  });
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

/** The processes in the session whose command line has this word. */
async function processesWith(word: string): Promise<string> {
  const script = `for p in /proc/[0-9]*; do [ $p != /proc/$$ ] && tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -a ${word}; done; true`;
  return String((await session.run(script, { env: {} })).stdout)
    .split('\n')
    .filter((line) => line !== '' && !line.includes('for p in'))
    .join('\n');
}

describe('a result', () => {
  test('of the very first commands of a session has their CPU time and memory too', async () => {
    const fresh = await stack.client.sessions.create({});
    for (let count = 0; count < 3; count++) {
      const { result } = await fresh.run('head -c 100000 /dev/zero | sha256sum');
      expect(result.cpuTimeMs).toBeGreaterThan(0.5);
      expect(result.peakMemoryBytes).toBeGreaterThan(200_000);
    }
    await fresh.close();
  });

  test('tells exit 137 from a SIGKILL', async () => {
    expect(await session.run('exit 137')).toMatchObject({ reason: 'EXITED', exitCode: 137, signal: undefined });
    expect(await session.run('kill -9 $$')).toMatchObject({ reason: 'SIGNALED', exitCode: undefined, signal: 9 });
  });

  test('counts bytes, time and memory', async () => {
    const { result } = await session.run('python3 -c "x = bytearray(50_000_000); print(len(x)); sum(range(10**6))"');
    expect(result.stdoutBytes).toBe(9);
    expect(result.peakMemoryBytes).toBeGreaterThan(50_000_000);
    expect(result.peakMemoryBytes).toBeLessThan(120_000_000);
    expect(result.cpuTimeMs).toBeGreaterThan(1);
    expect(result.durationMs).toBeGreaterThan(1);
  });

  test('of a program that cannot be started is an error, and nothing ran', async () => {
    await expect(session.run(['/no/such/program'])).rejects.toMatchObject({
      reason: 'PROGRAM_NOT_STARTED',
      message: expect.stringContaining('ENOENT'),
    });
    await expect(session.run('true', { cwd: '/nowhere' })).rejects.toMatchObject({ reason: 'PROGRAM_NOT_STARTED' });
  });

  test('is the same again for the same id, and the command does not run again', async () => {
    const first = await session.run('echo x >>/tmp/once; echo done', { id: 'once' });
    const second = await session.run('echo x >>/tmp/once; echo done', { id: 'once' });
    expect(String(second.stdout)).toBe(String(first.stdout));
    expect(String((await session.run('wc -l </tmp/once')).stdout).trim()).toBe('1');
    await expect(session.run('echo other', { id: 'once' })).rejects.toMatchObject({ reason: 'EXECUTION_ID_REUSED' });
  });
});

describe('a timeout', () => {
  test('keeps what was printed and ends children that left the session, double-forked or ignore TERM', async () => {
    const script = `
      echo before
      setsid sleep 7001 &
      (setsid sh -c 'sleep 7002 & ' &)
      sh -c 'trap "" TERM; while :; do sleep 7003; done' &
      python3 -c 'import os,time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(7004)
    os._exit(0)'
      : >/tmp/all-there; sleep 7005`;
    const run = await timedOutBeyond(
      (timeoutMs) => session.run(script, { timeoutMs }),
      async () => (await session.run('rm /tmp/all-there')).exitCode === 0,
    );
    expect(run.reason).toBe('TIMED_OUT');
    expect(String(run.stdout)).toBe('before\n');
    expect(await processesWith('700[1-5]')).toBe('');
  });
});

describe('a cancel', () => {
  test('ends every process and says CANCELLED', async () => {
    const execution = session.execute('sleep 7006 & echo up; wait');
    await printed(session, execution, 'up');
    await execution.cancel();
    expect((await execution.result()).reason).toBe('CANCELLED');
    expect(await processesWith(7006 as unknown as string)).toBe('');
  });

  test('that is not done when its session is closed ends with it, and the worker goes on', async () => {
    const fresh = await stack.client.sessions.create({});
    const stubborn = `(trap '' TERM; echo up; while :; do sleep 7007; done) & echo $$ >/tmp/pid; wait`;
    const execution = fresh.execute(stubborn);
    await printed(fresh, execution, 'up');
    await execution.cancel();
    // The guest tells the end of the program before that of what saw it gone.
    await fresh.run('while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.01; done');
    await fresh.close();
    // It takes longer than the worker would need to stumble.
    await (await stack.client.sessions.create({})).close();
    expect(stack.stack.restarts('worker')).toBe(0);
  });
});

describe('a signal', () => {
  test('reaches the process group and may be handled', async () => {
    const execution = session.execute(`trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.1; done`);
    await printed(session, execution, 'ready');
    await execution.signal(2);
    expect(await execution.result()).toMatchObject({ reason: 'EXITED', exitCode: 7 });
    await expect(execution.signal(2)).rejects.toMatchObject({ reason: 'EXECUTION_ENDED' });
  });
});

describe('background children', () => {
  test('that never stop printing do not hold back the result', async () => {
    const run = await session.run('yes & echo $!; exit 5', { maxOutputBytes: 100_000_000 });
    expect(run).toMatchObject({ reason: 'EXITED', exitCode: 5 });
    await session.run('pkill yes');
  });

  test('write to their own execution after its end, and following it ends when they do', async () => {
    const execution = session.execute('(while [ ! -e /tmp/late ]; do sleep 0.05; done; echo late) & echo early');
    await execution.result();
    expect(String((await session.run('echo other; touch /tmp/late')).stdout)).toBe('other\n');
    let text = '';
    for await (const event of session.attach(execution.id, { followBackground: true })) {
      if (event.type === 'stdout') text += Buffer.from(event.data).toString();
    }
    expect(text).toBe('early\nlate\n');
  });
});

async function engineRoot(): Promise<string> {
  const { DockerRootDir } = await new Docker({ socketPath: inject('setup').dockerSocket }).info();
  return DockerRootDir;
}

function freeBytes(place: string): number {
  const { bavail, bsize } = statfsSync(place);
  return bavail * bsize;
}

describe('limits', () => {
  test('of memory end the hog alone, and its neighbour and the session go on', async () => {
    const neighbour = session.execute('echo up; while [ ! -e /tmp/hog-done ]; do sleep 0.05; done; exit 8');
    await printed(session, neighbour, 'up');
    const hog = await session.run(`python3 -c 'x = bytearray(10**9)'`);
    expect(hog.reason).toBe('OUT_OF_MEMORY');
    await session.run('touch /tmp/hog-done');
    expect(await neighbour.result()).toMatchObject({ reason: 'EXITED', exitCode: 8 });
  });

  test.each(['/tmp', '/workspace', '/home/agent'])(
    'of disk give ENOSPC in %s and leave the host alone',
    // Somebody else may have filled it meanwhile, but not again and again.
    { retry: 2 },
    async (where) => {
      const places = [await engineRoot(), stack.stack.dataDir];
      const before = places.map(freeBytes);
      await using filled = await stack.client.sessions.create({ limits: { diskBytes } });
      const fill = await filled.run(`dd if=/dev/zero of=${where}/full bs=1M count=3000`);
      expect(String(fill.stderr)).toContain('No space left on device');
      // Until then it is the kernel that holds what was written, not the disk.
      await filled.run(`sync -f ${where}/full`);
      const taken = places.map((place, index) => (before[index] as number) - freeBytes(place));
      for (const bytes of taken) expect(bytes).toBeLessThan(diskBytes + slackBytes);
      await filled.run(`rm ${where}/full`);
      expect((await filled.run(`echo ok >${where}/after && cat ${where}/after`)).exitCode).toBe(0);
    },
  );
});

describe.concurrent('in a session of its own', () => {
  test('a timeout stands still while the session is paused', async () => {
    await using still = await stack.client.sessions.create({});
    const timeoutMs = 5_000;
    const execution = still.execute('echo go; until [ -e /tmp/on ]; do sleep 0.05; done', { timeoutMs });
    await printed(still, execution, 'go');
    await still.pause();
    await expect(still.run('true')).rejects.toMatchObject({ reason: 'SESSION_NOT_READY' });
    // Where nothing stands still, that time passes.
    expect((await session.run('sleep 7000', { timeoutMs })).reason).toBe('TIMED_OUT');
    await still.resume();
    await still.run('touch /tmp/on');
    expect((await execution.result()).reason).toBe('EXITED');
  });

  test('a command that follows one which killed every process there was runs', async () => {
    await using killed = await stack.client.sessions.create({});
    for (let round = 0; round < 30; round++) {
      expect(await killed.run('kill -9 -1')).toMatchObject({ reason: 'EXITED', exitCode: 0 });
      const next = await killed.run(['echo', 'alive']);
      expect([next.reason, String(next.stdout)]).toEqual(['EXITED', 'alive\n']);
    }
  });

  test('a limit of processes survives a fork bomb, and the session stays usable', async () => {
    // The shell itself forks once, before the bomb can take the last process: a shell that cannot fork ends.
    await using bombed = await stack.client.sessions.create({ limits: { pids: 128 } });
    const bomb = await bombed.run('bomb() { bomb | bomb & }; bomb & while :; do :; done', {
      timeoutMs: 2_000,
      maxOutputBytes: 10_000,
    });
    expect(bomb.reason).toBe('TIMED_OUT');
    expect(String((await bombed.run('echo alive')).stdout)).toBe('alive\n');
    expect(String((await bombed.run(['cat', '/etc/hostname'])).stdout)).not.toBe('');
  });

  test('a limit of processes used up by what an execution left says whose they are, and a cancel of it ends them', async () => {
    await using bombed = await stack.client.sessions.create({ limits: { pids: 40 } });
    const bomb = bombed.execute('while sleep 1000 & do :; done', { id: 'bomb' });
    expect(await bomb.result()).toMatchObject({ reason: 'EXITED' });
    // What ended gave its own process back; these take what is left.
    const others = Array.from({ length: 10 }, () => bombed.execute(['sleep', '1000']).result());
    const error = await Promise.race(others).catch((caught: unknown) => caught);
    for (const other of others) other.catch(() => {});
    expect(error).toMatchObject({ reason: 'EXECUTION_QUOTA', message: expect.stringContaining('bomb') });
    await bomb.cancel();
    await vi.waitFor(async () => expect(String((await bombed.run(['echo', 'alive'])).stdout)).toBe('alive\n'), 20_000);
    expect(await bomb.result()).toMatchObject({ reason: 'EXITED' });
  });
});
