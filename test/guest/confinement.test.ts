import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { mayLowerOomScore } from '../oom-score.ts';
import { type } from './frame-codec.ts';
import {
  createGuestBuild,
  type GuestBuild,
  type GuestOptions,
  type GuestProcess,
  run,
  SECRET,
  startGuest,
} from './guest-process.ts';
import { readExit } from './test-worker.ts';

const root = process.getuid?.() === 0;
let build: GuestBuild;
let guest: GuestProcess;

beforeAll(async () => {
  build = await createGuestBuild();
});
afterAll(() => build.remove());
afterEach(() => guest.stop());

async function start(options: GuestOptions = {}): Promise<void> {
  guest = await startGuest(build, options);
  await guest.worker.frame(type.SYNCED);
}

async function output(number: number, script: string): Promise<string> {
  guest.worker.start(number, { argv: ['sh', '-c', `${script} 2>&1`] });
  await guest.worker.frame(type.CLOSED, number);
  return guest.worker.spool(number, 1).bytes().toString();
}

test('the secret is in nobody’s environment, not even the guest’s', async () => {
  await start();
  expect((await readFile(`/proc/${guest.pid}/environ`)).includes(SECRET)).toBe(false);
  expect(await output(1, 'env')).not.toContain('SECRET');
});

test('io_uring, io_setup, AF_VSOCK, namespaces, mounts and the limits of other processes are refused by every entry', async () => {
  await build.make(`${build.directory}/probe`);
  await start();
  const errors = await output(1, join(build.directory, 'probe'));
  const wanted = [
    'unix=0',
    'vsock=97',
    'vsock_high_bits=97',
    'io_uring=38',
    'io_uring=38',
    'io_uring=38',
    'io_setup=38',
    'close_range=22',
    'own_limits=22',
    'unshare=1',
    'setns=1',
    'clone=1',
    'clone3=38',
    'mount=1',
    'open_tree=1',
    'fspick=1',
    'pidfd_open=22',
    'mount_setattr=1',
    'lsm=38',
    'lsm=38',
    'lsm=38',
    'open_tree_attr=38',
    'perf_event_open=1',
    'bpf=1',
    'limits_of_another=1',
  ];
  if (process.arch === 'x64') {
    wanted.push('x32_vsock_refused=1', 'i386_socketcall=38', 'i386_vsock=97', 'i386_unix=0');
    wanted.push('i386_unshare=1', 'i386_clone=1', 'i386_mount=1');
    wanted.push('i386_own_limits=22', 'i386_limits_of_another=1', 'i386_io_uring=38', 'i386_io_setup=38');
  }
  expect(errors.trim().split('\n')).toEqual(wanted);
});

test.runIf(root)('a process of the same user cannot look into the guest', async () => {
  await start({ uid: 65_534 });
  const read = `cat /proc/${guest.pid}/environ; ls /proc/${guest.pid}/fd; cat /proc/${guest.pid}/maps`;
  const seen = await output(1, `id -u; { ${read}; }`);
  expect(seen).toMatch(/^65534\n/);
  expect(seen.match(/Permission denied/g)).toHaveLength(3);
});

test.runIf(root)('the out-of-memory killer prefers a child to the guest', async () => {
  await start({ uid: 65_534, oomScoreAdj: 100 });
  expect(await readFile(`/proc/${guest.pid}/oom_score_adj`, 'utf8')).toBe('100\n');
  expect(await output(1, 'cat /proc/self/oom_score_adj')).toBe('600\n');
});

test.runIf(root)('a program starts above the scores that services have, and cannot lower its own below 0', async () => {
  await start({ uid: 65_534, oomScoreAdj: 0 });
  const file = '/proc/$$/oom_score_adj';
  const lower = (score: number) => `echo ${score} > ${file} || echo refused; cat ${file}`;
  const printed = await output(1, `exec 2> /dev/null; cat ${file}; ${lower(-1)}; ${lower(0)}; ${lower(-1)}`);
  expect(printed.split('\n')).toEqual(['500', 'refused', '500', '0', 'refused', '0', '']);
});

test.runIf(mayLowerOomScore)('also where the guest itself is protected, a program starts at 500', async () => {
  await start({ uid: 65_534, oomScoreAdj: -900 });
  expect(await output(1, 'cat /proc/self/oom_score_adj')).toBe('500\n');
});

test.runIf(root)('a user that is given is taken, with its group alone', async () => {
  await start();
  guest.worker.start(1, { argv: ['id'], uid: 65_534, gid: 65_533 });
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toMatch(/^uid=65534\S* gid=65533\S* groups=65533\S*\n$/);
});

test.runIf(root)('a guest without the right to change users says so', async () => {
  await start({ uid: 65_534 });
  guest.worker.start(1, { argv: ['id'], uid: 0, gid: 0 });
  const { payload } = await guest.worker.frame(type.FAILED, 1);
  expect([payload.readUInt32LE(0), payload.readUInt32LE(4)]).toEqual([4, 1]);
});

test.runIf(root)('as PID 1 it cannot be killed, stopped or terminated from inside and reaps orphans', async () => {
  await start({ init: true });
  await output(1, 'for s in KILL STOP TERM INT HUP SEGV USR1 CHLD; do kill -$s 1; done; (sleep 0 & sleep 0 &)');
  const zombies = 'grep -qsE "^State:.Z" /proc/[0-9]*/status';
  expect(await output(2, `cat /proc/1/comm; while ${zombies}; do sleep 0.01; done; echo reaped`)).toBe(
    'guest\nreaped\n',
  );
});

test.runIf(root)('as PID 1 it ends at once when it is terminated from outside', async () => {
  await start({ init: true });
  guest.worker.start(1, { argv: ['sleep', '60'] });
  await guest.worker.frame(type.STARTED, 1);
  const { stdout } = await run('pgrep', ['-P', String(guest.pid)]);
  process.kill(Number(stdout.trim()), 'SIGTERM');
  await guest.worker.disconnected();
});

test('an idle guest is small', async () => {
  await start();
  const status = await readFile(`/proc/${guest.pid}/status`, 'utf8');
  const resident = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]);
  expect(resident).toBeLessThan(1024);
});

async function failedThenRan(limit: string, as: { uid?: number; gid?: number }): Promise<number[]> {
  await run('prlimit', ['--pid', String(guest.pid), `--${limit}:`], as);
  guest.worker.start(1, { argv: ['true'] });
  const { payload } = await guest.worker.frame(type.FAILED, 1);
  await run('prlimit', ['--pid', String(guest.pid), `--${limit.replace(/\d+/, '1000')}:`], as);
  guest.worker.start(2, { argv: ['true'] });
  expect(readExit(await guest.worker.frame(type.EXIT, 2)).code).toBe(0);
  return [payload.readUInt32LE(0), payload.readUInt32LE(4)];
}

test('pipes that the limits refuse fail the execution alone', async () => {
  await start();
  expect(await failedThenRan('nofile=8', {})).toEqual([1, 24]);
});

test('pipes that the limits refuse only in the child fail the execution alone', async () => {
  await start();
  expect(await failedThenRan('nofile=14', {})).toEqual([1, 22]);
});

test.runIf(root)('a fork that the limits refuse fails the execution alone', async () => {
  await start({ uid: 65_531 });
  expect(await failedThenRan('nproc=1', { uid: 65_531, gid: 65_531 })).toEqual([2, 11]);
});
