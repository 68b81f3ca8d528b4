import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { watchScreen } from './screen.ts';
import { startTestStack, type TestStack } from './stack.ts';

const terminal = { rows: 24, columns: 80 };
let stack: TestStack;
let session: Session;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create();
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

test('a command on a terminal sees one, owned by its user, and its streams are merged', async () => {
  const script =
    'tty; stty size; test -O /dev/pts/0 && test -t 0 && test -t 1 && test -t 2 && echo "$TERM"; echo error >/dev/stderr';
  const { exitCode, stdout, stderr } = await session.run(script, { terminal });
  expect([exitCode, String(stdout), stderr.length]).toEqual([
    0,
    '/dev/pts/0\r\n24 80\r\nxterm-256color\r\nerror\r\n',
    0,
  ]);
});

test('a variable TERM of the caller counts', async () => {
  const { stdout } = await session.run('echo "$TERM"', { terminal, env: { TERM: 'vt100' } });
  expect(String(stdout)).toBe('vt100\r\n');
});

test('an interactive bash has job control, hears Ctrl-C and Ctrl-Z, and gives its exit code', async () => {
  const execution = session.execute(['bash', '--norc', '-i'], { terminal, env: { PS1: 'ready> ' } });
  const screen = watchScreen(execution);
  await screen.shows('ready> ');
  await execution.stdin.write('sleep 1000\r');
  await expect.poll(async () => String((await session.run('pgrep -x sleep')).stdout)).toMatch(/\d/);
  await execution.stdin.write('\x1a');
  await screen.shows(/Stopped\s+sleep 1000/);
  await execution.stdin.write('fg\r');
  await screen.shows(/fg\r\n.*sleep 1000\r\n$/s);
  // What it says comes before it lends the terminal: a key that is too early would be its own.
  await expect.poll(async () => String((await session.run('ps -C sleep -o stat=')).stdout)).toMatch(/^S\S*\+/);
  await execution.stdin.write('\x03');
  await screen.shows(/\^C[^>]*ready> /);
  await execution.stdin.write('echo "status $?"\r');
  await screen.shows('status 130');
  await execution.stdin.write('exit 33\r');
  expect(await execution.result()).toMatchObject({ reason: 'EXITED', exitCode: 33 });
});

test('a new size reaches the program, also through a worker that was killed meanwhile', async () => {
  const watch = "trap 'stty size' WINCH; echo ready; while :; do sleep 1000 & wait; done";
  const execution = session.execute(watch, { terminal });
  const screen = watchScreen(execution);
  await screen.shows('ready');
  await execution.resize({ rows: 40, columns: 100 });
  await screen.shows('40 100');
  await stack.replace('worker');
  await execution.resize({ rows: 41, columns: 101 });
  await screen.shows('41 101');
  await execution.cancel();
  expect(await execution.result()).toMatchObject({ reason: 'CANCELLED' });
});

test('a killed sessions service and a killed worker cost no byte on a terminal', async () => {
  const execution = session.execute('stty -echo; echo ready; while read line; do echo "[$line]"; done; exit 4', {
    terminal,
  });
  const screen = watchScreen(execution);
  await screen.shows('ready');
  for (let count = 0; count < 4; count++) {
    await execution.stdin.write(`${count}\r`);
    await screen.shows(`[${count}]`);
    await stack.replace(count % 2 === 0 ? 'worker' : 'sessions');
  }
  await execution.stdin.end();
  expect(await execution.result()).toMatchObject({ exitCode: 4 });
  expect(screen.text).toBe('ready\r\n[0]\r\n[1]\r\n[2]\r\n[3]\r\n');
});

test('a terminal that is given no input gets its end', async () => {
  const { exitCode, stdout } = await session.run('cat; echo over', { terminal });
  expect([exitCode, String(stdout).includes('over')]).toEqual([0, true]);
});

test('a timeout ends what runs on a terminal, its jobs included', async () => {
  const { reason } = await session.run("set -m; trap '' HUP TERM; sleep 2000 & sleep 2000", {
    terminal,
    timeoutMs: 300,
  });
  expect(reason).toBe('TIMED_OUT');
  expect((await session.run(['pgrep', '-f', 'sleep 2000'])).exitCode).toBe(1);
});

test('a server in the background of a terminal does not hold its end back', async () => {
  const { result } = await session.run("trap '' HUP; (while :; do echo tick; sleep 0.01; done) & exit 6", { terminal });
  expect(result).toMatchObject({ reason: 'EXITED', exitCode: 6 });
  await session.run(['pkill', '-f', 'tick']);
});

test('a size is refused where there is no terminal, after its end, and out of range', async () => {
  const without = session.execute('cat', { input: true });
  await without.started;
  await expect(without.resize(terminal)).rejects.toMatchObject({ reason: 'NO_TERMINAL' });
  await without.stdin.end();
  const ended = session.execute('true', { terminal });
  await ended.result();
  await expect(ended.resize(terminal)).rejects.toMatchObject({ reason: 'EXECUTION_ENDED' });
  const field = { reason: 'LIMIT_EXCEEDED', metadata: { field: 'terminal.rows' } };
  await expect(session.run('true', { terminal: { rows: 0, columns: 80 } })).rejects.toMatchObject(field);
  await expect(session.run('true', { terminal: { rows: 1001, columns: 80 } })).rejects.toMatchObject(field);
  await expect(ended.resize({ rows: 1, columns: 1001 })).rejects.toMatchObject({ metadata: { field: 'size.columns' } });
});

test('the same id with and without a terminal are two commands', async () => {
  await session.run('true', { id: 'twice', terminal });
  await session.run('true', { id: 'twice', terminal: { rows: 5, columns: 5 } });
  await expect(session.run('true', { id: 'twice' })).rejects.toMatchObject({ reason: 'EXECUTION_ID_REUSED' });
});
