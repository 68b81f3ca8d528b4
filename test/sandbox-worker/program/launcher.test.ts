import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { hasEnded } from '../../../services/sandbox-worker/docker/container-kill.ts';
import { createLauncher } from '../../../services/sandbox-worker/program/launcher.ts';
import { startProgram } from '../../../services/sandbox-worker/program/program.ts';
import type { ProgramOptions } from '../../../services/sandbox-worker/program/running-program.ts';

const path = join(dirname(inject('setup').guestPath), 'launcher');
const start = createLauncher(path);
const env = { PATH: '/usr/bin:/bin' };
const run = (script: string, options: ProgramOptions = { input: '' }) =>
  start('sh', ['-c', script], { env, ...options });

/** The launchers that this process started. */
function launchers(): number[] {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return children.map(Number).filter((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      return stat.includes('(launcher)') && Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === process.pid;
    } catch {
      return false;
    }
  });
}

test('a program has its arguments, its environment and its input, and its streams are told apart', async () => {
  const program = start('sh', ['-c', 'cat; echo "$0 $NAME"; echo bad >&2; exit 3', 'two words'], {
    env: { ...env, NAME: 'value' },
    input: 'given\n',
  });
  expect(await program.ended).toEqual({
    code: 3,
    signal: undefined,
    stdout: 'given\ntwo words value\n',
    stderr: 'bad\n',
  });
});

test('a program that is not there ends with 127 and says why', async () => {
  expect(await start('/no/such/program', [], { input: '' }).ended).toMatchObject({
    code: 127,
    stderr: expect.stringContaining('No such file'),
  });
});

test('input stays open until it is ended, and what a program says comes at once', async () => {
  const said = Promise.withResolvers<string>();
  const program = run('echo ready; cat; echo ended', { onStdout: (chunk) => said.resolve(chunk.toString()) });
  expect(await said.promise).toBe('ready\n');
  program.endInput();
  expect(await program.ended).toMatchObject({ code: 0, stdout: 'ready\nended\n' });
});

test('a program that is killed ends by that signal', async () => {
  const program = run('echo; exec sleep 1000', { onStdout: () => program.kill() });
  expect(await program.ended).toMatchObject({ code: undefined, signal: 9 });
});

test.each([
  ['the launcher', start],
  ['the worker itself', startProgram],
])('a program of %s that is killed takes with it what it started', async (_, startBy) => {
  const program = startBy('sh', ['-c', 'sleep 1000 & echo $!; wait'], {
    env,
    input: '',
    onStdout: () => program.kill(),
  });
  const { stdout, signal } = await program.ended;
  expect(signal).toBe(9);
  await expect.poll(() => hasEnded(Number(stdout))).toBe(true);
});

test('every byte of large input and output comes through, of many programs at once', async () => {
  const input = 'x'.repeat(1_000_000);
  const ends = await Promise.all(Array.from({ length: 20 }, () => run('cat', { input }).ended));
  for (const end of ends) expect(end.stdout === input && end.code === 0).toBe(true);
});

test('a background child that holds the streams does not hold up the end', async () => {
  const { stdout } = await run('sleep 1000 & echo $!').ended;
  process.kill(Number(stdout), 'SIGKILL');
});

test('a background child that never stops writing holds up neither the end nor other programs', async () => {
  const { stdout } = await run('yes >&2 & echo $!').ended;
  expect(await run('exit 6').ended).toMatchObject({ code: 6 });
  // Nobody reads it any more.
  await expect.poll(() => existsSync(`/proc/${Number(stdout)}`)).toBe(false);
});

test('more programs than there are places are refused, and the rest go on', async () => {
  const programs = Array.from({ length: 600 }, () => start('cat', [], { env }));
  for (const program of programs) program.endInput();
  const codes = (await Promise.all(programs.map(({ ended }) => ended))).map(({ code }) => code);
  expect(new Set(codes).isSubsetOf(new Set([0, 127]))).toBe(true);
  expect(codes.filter((code) => code === 0).length).toBeGreaterThanOrEqual(512);
  expect(await run('exit 4').ended).toMatchObject({ code: 4 });
});

test('a launcher that somebody killed loses its programs, says so, and is started again', async () => {
  const said = Promise.withResolvers<void>();
  const program = run('echo; cat', { onStdout: () => said.resolve() });
  await said.promise;
  const [pid] = launchers();
  process.kill(pid as number, 'SIGTERM');
  process.kill(pid as number, 'SIGKILL');
  await expect(program.ended).rejects.toThrow('the launcher ended with SIGKILL');
  expect(await run('exit 5').ended).toMatchObject({ code: 5 });
});

test('the launcher ends with its worker, and programs lose their input', async () => {
  const launcher = spawn(path, { stdio: ['pipe', 'pipe', 'inherit'] });
  const text = Buffer.from('sh\0-c\0echo $$; cat\0PATH=/usr/bin:/bin\0');
  const head = Buffer.alloc(16);
  [1, 1, text.length + 4, 3].forEach((value, index) => void head.writeUInt32LE(value, index * 4));
  launcher.stdin.write(Buffer.concat([head, text]));
  const [chunk] = (await once(launcher.stdout, 'data')) as [Buffer];
  const pid = Number(chunk.subarray(12).toString());
  launcher.stdin.end();
  await once(launcher, 'exit');
  await expect.poll(() => existsSync(`/proc/${pid}`)).toBe(false);
});
