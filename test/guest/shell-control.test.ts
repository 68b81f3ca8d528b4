import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { encodeFrame, encodeShellStart, encodeStart, readU64, type } from './frame-codec.ts';
import { SHELLS_MOUNT, useGuestContainer } from './guest-container.ts';
import { patience } from './patience.ts';
import { nextNumber, openShell } from './shell-driver.ts';
import { readExit } from './test-worker.ts';

const guest = useGuestContainer();

const [TERM, KILL] = [15, 9];
const [PROGRAM, ALL] = [1, 3];

/** The output of a direct execution. */
async function direct(script: string): Promise<string> {
  const { worker } = guest();
  const number = nextNumber(worker);
  worker.start(number, { argv: ['sh', '-c', script], env: ['PATH=/usr/bin:/bin'] });
  await worker.frame(type.CLOSED, number);
  worker.send(encodeFrame(type.FORGET, number));
  return worker.spool(number, 1).bytes().toString();
}

/** Those of the sleeps with these times that still run. */
const sleeping = async (...times: number[]) => {
  const found = await direct(`pgrep -a sleep | sed 's/.* //' | sort -n`);
  return found
    .trim()
    .split('\n')
    .filter((time) => times.includes(Number(time)));
};

/** A program is there, and one that was sent KILL gone, a moment after the guest did its part. */
const untilSleep = (of: number[], expected: number[]) =>
  expect.poll(() => sleeping(...of), patience).toEqual(expected.map(String));

async function failure(number: number): Promise<number[]> {
  const { payload } = await guest().worker.frame(type.FAILED, number);
  return [payload.readUInt32LE(0), payload.readUInt32LE(4)];
}

const interrupted = [
  ['a loop of builtins', 'echo in; : >/tmp/in; while :; do :; done; echo x'],
  [
    'nested functions',
    'f() { echo in; : >/tmp/in; while :; do :; done; echo x; }; g() { f; echo x; }; g; echo x\necho x',
  ],
  ['a program among others', 'echo in; : >/tmp/in; sleep 60; sleep 60; echo x'],
  ['functions that run programs', 'f() { sleep 60; }\necho in; : >/tmp/in; f; f\nf; echo x; f\necho x'],
  ['a wait', 'sleep 60 & echo in; : >/tmp/in; wait; echo x'],
  ['a read', 'mkfifo /tmp/quiet 2>/dev/null; echo in; : >/tmp/in; read v <>/tmp/quiet; echo x'],
  ['the opening of a pipe', 'mkfifo /tmp/quiet 2>/dev/null; echo in; : >/tmp/in; read v </tmp/quiet; echo x'],
  ['an eval', 'echo in; : >/tmp/in; eval "while :; do :; done"; echo x'],
  ['a substitution', 'echo in; : >/tmp/in; v=$(while :; do :; done); echo x'],
  ['a subshell', 'echo in; : >/tmp/in; (while :; do :; done); echo x'],
  ['a pipeline', 'echo in; : >/tmp/in; yes | while :; do :; done; echo x'],
  ['a loop of short programs', 'echo in; : >/tmp/in; until false; do sleep 0.01; done; echo x'],
] as const;

const programs = [
  { name: 'bash', argv: ['bash'] },
  { name: 'dash', argv: ['dash'] },
  { name: 'zsh', argv: ['zsh'] },
  { name: 'ash', argv: ['busybox', 'ash'] },
];

describe.each(programs)('in $name', ({ argv }) => {
  const open = (gated = false) => openShell(guest().worker, { argv, gated });

  test.each(interrupted)('an interrupt ends %s and keeps the state', async (_, text) => {
    const { worker } = guest();
    const shell = await open();
    await shell.run('kept=yes; cd /usr; f() { :; }');
    const number = shell.start(text);
    await direct('until [ -e /tmp/in ]; do sleep 0.01; done; rm /tmp/in'); // zsh writes twice what it is writing when its trap runs
    shell.interrupt(number);
    // Again and again: a process may be made after the first.
    const killing = setInterval(() => worker.signal(number, TERM, ALL), 50);
    worker.signal(number, TERM, ALL);
    await worker.frame(type.EXIT, number);
    clearInterval(killing);
    expect(await shell.ended(number)).toMatchObject({ code: 124, flags: 0, stdout: 'in\n' });
    expect(await shell.run('echo $kept; pwd; trap')).toMatchObject({
      code: 0,
      flags: 0,
      stdout: expect.stringMatching(/^yes\n\/usr\n/),
    });
    await shell.close();
  });

  test('what a background process prints later belongs to its own execution, which closes when it ends', async () => {
    const { worker } = guest();
    const shell = await open();
    const first = shell.start('mkfifo /tmp/go.$$; (read v </tmp/go.$$; echo late) & echo early');
    expect((await shell.ended(first)).stdout).toBe('early\n');
    expect(await shell.run('echo now >/tmp/go.$$; echo mine')).toMatchObject({ stdout: 'mine\n' });
    const closed = await worker.frame(type.CLOSED, first);
    expect(readU64(closed.payload, 0)).toBe(11);
    expect(worker.spool(first, 1).bytes().toString()).toBe('early\nlate\n');
    await shell.close();
  });

  test('a background process that never stops printing holds nothing back', async () => {
    const { worker } = guest();
    const shell = await open();
    const noisy = shell.start('yes &');
    const { stdout } = readExit(await worker.frame(type.EXIT, noisy));
    expect(await shell.run('echo a')).toMatchObject({ stdout: 'a\n' });
    await worker.until(() => worker.spool(noisy, 1).length > stdout + (1 << 20));
    worker.signal(noisy, KILL, ALL);
    await worker.frame(type.CLOSED, noisy);
    expect(await shell.run('echo b')).toMatchObject({ stdout: 'b\n', flags: 0 });
    await shell.close();
  });

  test('a signal reaches whatever the command started and nothing that was there before', async () => {
    const { worker } = guest();
    const shell = await open();
    const earlier = [1001, 1002, 1003, 1004];
    const started = [2001, 2002, 2003, 2004, 2005, 2006];
    await shell.run(
      'sleep 1001 & (sleep 1002; :) >/dev/null 2>&1 & setsid -f sleep 1003 >/dev/null 2>&1; nohup sleep 1004 >/dev/null 2>&1 &',
    );
    await untilSleep(earlier, earlier);
    const text =
      'sleep 2001 >/dev/null 2>&1 & setsid -f sleep 2002; (setsid sleep 2003 >/dev/null 2>&1 &); nohup sleep 2004 & (sleep 2005; :) & echo in; sleep 2006; echo out';
    const number = shell.start(text);
    await untilSleep(started, started);
    worker.signal(number, KILL, ALL);
    expect((await shell.ended(number)).stdout).toBe('in\nout\n');
    await untilSleep(started, []);
    expect(await sleeping(...earlier)).toEqual(earlier.map(String));
    await shell.close();
    // Nothing but a cgroup tells whose 1003 is: it left the session and holds no stream.
    await untilSleep([1001, 1002, 1004], []);
    await direct('pkill -x -f "sleep 1003"');
  });

  test('a signal for the program ends the shell, which is opened again', async () => {
    const { worker } = guest();
    const shell = await open(true);
    const number = shell.start('echo in; while :; do :; done');
    await worker.until(() => worker.spool(number, 1).length >= 3);
    const from = worker.frames.length;
    worker.signal(number, KILL, PROGRAM);
    await worker.frame(type.SPAWNED, shell.number, from);
    worker.send(encodeFrame(type.GO, shell.number));
    expect(await shell.ended(number)).toMatchObject({ signal: KILL, flags: 1 });
    expect(shell.opened()).toBe(2);
    await shell.close();
  });

  test('a shell that is killed between commands is opened again', async () => {
    const shell = await open();
    await shell.run('x=1');
    await direct(`kill -9 ${shell.pid()}`);
    await shell.untilOpened(2);
    expect((await shell.run('echo "=$x"')).stdout).toBe('=\n');
    await shell.close();
  });

  test('a command that comes while the shell is being opened again waits for it', async () => {
    const { worker } = guest();
    const shell = await open(true);
    await shell.run('x=1');
    const from = worker.frames.length;
    await direct(`kill -9 ${shell.pid()}`);
    await worker.frame(type.SPAWNED, shell.number, from);
    const number = shell.start('echo "=$x"');
    worker.send(encodeShellStart(number, shell.number, 'echo twice'));
    const another = shell.start('echo another');
    expect(await failure(another)).toEqual([8, 16]);
    worker.send(encodeFrame(type.GO, shell.number));
    expect(await shell.ended(number)).toMatchObject({ code: 0, flags: 0, stdout: '=\n' });
    await shell.close();
  });

  test('input arrives with its end, and sent twice it counts once', async () => {
    const { worker } = guest();
    const shell = await open();
    const number = shell.start('read a; echo $a; cat; echo end', { input: true });
    shell.feed(number, 'one\n');
    await worker.until(() => worker.spool(number, 1).length >= 4);
    shell.feed(number, 'one\ntwo\n');
    await worker.until(() => worker.spool(number, 1).length >= 8);
    shell.endInput(number, 8);
    expect(await shell.ended(number)).toMatchObject({ code: 0, stdout: 'one\ntwo\nend\n' });
    const hasty = shell.start('cat; echo $?', { input: true });
    shell.feed(hasty, 'x');
    shell.endInput(hasty, 1);
    expect(await shell.ended(hasty)).toMatchObject({ stdout: 'x0\n' });
    await shell.run('(exit 4)');
    const empty = shell.start('echo $?; cat', { input: true });
    shell.endInput(empty, 0);
    expect(await shell.ended(empty)).toMatchObject({ code: 0, stdout: '4\n' });
    await shell.close();
  });

  test('input that nobody reads is said to be closed at the end', async () => {
    const { worker } = guest();
    const shell = await open();
    const number = shell.start('echo a', { input: true });
    await worker.until(() =>
      worker.frames.some(
        (f) => f.type === type.INPUT_ACK && f.number === number && (f.payload.readUInt8(16) & 1) === 1,
      ),
    );
    await worker.frame(type.CLOSED, number);
    expect((await shell.run('echo b')).stdout).toBe('b\n');
    await shell.close();
  });

  test('closing a shell ends its command and everything it started', async () => {
    const { worker } = guest();
    const shell = await open();
    await shell.run('sleep 3001 & setsid -f sleep 3002');
    const number = shell.start('setsid -f sleep 3003; echo in; sleep 3004');
    const all = [3001, 3002, 3003, 3004];
    await untilSleep(all, all);
    await shell.close();
    expect(readExit(await worker.frame(type.EXIT, number))).toMatchObject({ flags: 1 });
    await worker.frame(type.CLOSED, number);
    await untilSleep(all, []);
    expect(await direct(`ls -d ${SHELLS_MOUNT}/${shell.number} 2>/dev/null`)).toBe('');
  });

  test('after a reconnect a shell is told before its execution, which goes on', async () => {
    const { worker } = guest();
    const shell = await open();
    const number = shell.start('echo before; read v; echo after; false', { input: true });
    await worker.until(() => worker.spool(number, 1).length >= 7);
    const from = worker.frames.length;
    worker.drop();
    await worker.frame(type.SYNCED, undefined, from);
    const told = worker.frames.slice(from);
    const shellAt = told.findIndex((f) => f.type === type.SHELL && f.number === shell.number);
    const stateAt = told.findIndex((f) => f.type === type.STATE && f.number === number);
    expect(shellAt).toBeGreaterThan(0);
    expect(stateAt).toBeGreaterThan(shellAt);
    shell.feed(number, 'x\n');
    expect(await shell.ended(number)).toMatchObject({ code: 1, stdout: 'before\nafter\n' });
    await shell.close();
  });

  test('hundreds of commands leave no descriptor and no file behind', async () => {
    const { worker } = guest();
    const shell = await open();
    const descriptors = () => readdirSync(`/proc/${guest().pid}/fd`).length;
    await shell.run('true');
    const before = descriptors();
    for (let i = 0; i < 300; i++) {
      const from = worker.frames.length;
      const number = shell.start(i % 3 === 0 ? 'false' : ':', { input: i % 2 === 0 });
      await shell.ended(number);
      await worker.frame(type.CLOSED, number, from);
    }
    expect(await direct(`ls ${SHELLS_MOUNT}/${shell.number}`)).toBe('init\nm\n');
    expect(descriptors()).toBeLessThanOrEqual(before);
    await shell.close();
  });
});

test('without a program a shell is bash, and sh where the path has none', async () => {
  const { worker } = guest();
  const first = await openShell(worker, { argv: [] });
  expect((await first.run('echo $BASH_VERSION')).stdout).toMatch(/^5/);
  await first.close();
  await direct('mkdir -p /tmp/only && ln -sf /bin/sh /tmp/only/sh');
  const second = await openShell(worker, { argv: [], env: ['PATH=/tmp/only'] });
  expect((await second.run('echo "$0$BASH_VERSION"')).stdout).toBe('sh\n');
  await second.close();
});

test('what cannot be a shell fails', async () => {
  const { worker } = guest();
  const open = (argv: string[], cwd = '/') => {
    const number = nextNumber(worker);
    worker.send(encodeStart(number, { argv, cwd }, type.OPEN_SHELL));
    return failure(number);
  };
  expect(await open(['/no/such/shell'])).toEqual([5, 2]);
  expect(await open(['bash'], '/no/such/directory')).toEqual([3, 2]);
  // It reads the commands and runs none, until the guest ends it.
  expect(await open(['cat'])).toEqual([11, 9]);
  expect(await open(['true'])).toEqual([10, 0]);
});

test('a shell that is missing or busy refuses a command, which may be tried again', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'] });
  const busy = shell.start('read v', { input: true });
  const number = nextNumber(worker);
  worker.send(encodeShellStart(number, shell.number, 'echo a'));
  expect(await failure(number)).toEqual([8, 16]);
  shell.endInput(busy, 0);
  await shell.ended(busy);
  worker.send(encodeShellStart(number, shell.number, 'echo a'));
  expect((await shell.ended(number)).stdout).toBe('a\n');
  await shell.close();
  const late = shell.start('echo a');
  expect(await failure(late)).toEqual([7, 2]);
});

test('a command and a shell that are sent twice happen once', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'] });
  expect(worker.frames.filter((f) => f.type === type.SPAWNED && f.number === shell.number)).toEqual([]);
  const number = shell.start('echo once; read v', { input: true });
  await worker.until(() => worker.spool(number, 1).length >= 5);
  const from = worker.frames.length;
  worker.send(
    encodeShellStart(number, shell.number, 'echo twice'),
    encodeStart(shell.number, { argv: ['bash'] }, type.OPEN_SHELL),
  );
  await worker.frame(type.STATE, number, from);
  expect((await worker.frame(type.SHELL, shell.number, from)).payload.readUInt32LE(4)).toBe(1);
  shell.endInput(number, 0);
  expect((await shell.ended(number)).stdout).toBe('once\n');
  await shell.close();
  worker.send(encodeStart(shell.number, { argv: ['bash'] }, type.OPEN_SHELL));
  await worker.frame(type.UNKNOWN, shell.number);
  const again = worker.frames.length;
  worker.send(encodeFrame(type.CLOSE_SHELL, shell.number));
  expect((await worker.frame(type.SHELL, shell.number, again)).payload.readUInt32LE(0)).toBe(0);
});

test('a command that waits for its shell is lost with the connection, and sent again it runs once', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'], gated: true });
  const opening = worker.frames.length;
  await direct(`kill -9 ${shell.pid()}`);
  await worker.frame(type.SPAWNED, shell.number, opening);
  const lost = shell.start('echo lost');
  expect(await failure(shell.start('echo a'))).toEqual([8, 16]);
  const from = worker.frames.length;
  worker.drop();
  await worker.frame(type.SYNCED, undefined, from);
  const again = shell.start('echo again');
  expect(await failure(shell.start('echo a'))).toEqual([8, 16]);
  expect(worker.frames.filter((f) => f.type === type.FAILED && f.number === again)).toEqual([]);
  worker.send(encodeFrame(type.GO, shell.number));
  expect(await shell.ended(again)).toMatchObject({ code: 0, stdout: 'again\n' });
  expect(worker.frames.slice(from).filter((f) => f.number === lost)).toEqual([]);
  await shell.close();
});

test('a shell that is being opened is told after a reconnect', async () => {
  const { worker } = guest();
  const opened = nextNumber(worker);
  worker.send(encodeStart(opened, { argv: ['bash'], env: ['PATH=/usr/bin:/bin'], gated: true }, type.OPEN_SHELL));
  const pid = (await worker.frame(type.SPAWNED, opened)).payload.readUInt32LE(0);
  await direct(`kill -STOP ${pid}`);
  const from = worker.frames.length;
  worker.send(encodeFrame(type.GO, opened));
  await direct(':');
  worker.drop();
  await worker.frame(type.SYNCED, undefined, from);
  const told = worker.frames.slice(from).filter((f) => f.number === opened);
  expect(told.map((f) => [f.type, f.payload.readUInt32LE(0)])).toEqual([[type.SPAWNED, pid]]);
  worker.send(encodeFrame(type.GO, opened));
  await direct(`kill -CONT ${pid}`);
  expect((await worker.frame(type.SHELL, opened, from)).payload.readUInt32LE(4)).toBe(1);
  worker.send(encodeFrame(type.CLOSE_SHELL, opened));
  await worker.until(() => worker.frames.at(-1)?.type === type.SHELL);
});

test('there are at most 64 shells', async () => {
  const { worker } = guest();
  const shells = [];
  for (let i = 0; i < 64; i++) shells.push(await openShell(worker, { argv: ['dash'] }));
  const number = nextNumber(worker);
  worker.send(encodeStart(number, { argv: ['dash'] }, type.OPEN_SHELL));
  expect(await failure(number)).toEqual([6, 11]);
  for (const shell of shells) await shell.close();
  expect(await direct(`ls ${SHELLS_MOUNT}`)).toBe('');
});

test('a shell whose directory was removed is opened again', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'] });
  const lost = shell.start(`rm -r ${SHELLS_MOUNT}/${shell.number}`);
  expect(await shell.ended(lost)).toMatchObject({ flags: 3 });
  expect((await shell.run('echo a')).stdout).toBe('a\n');
  await shell.close();
});

test('a command that could not be handed over fails, the shell is opened again, and a signal for it reaches nobody', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'] });
  const other = await openShell(worker, { argv: ['bash'] });
  await other.run('sleep 4001 &');
  await untilSleep([4001], [4001]);
  await direct(`rm -r ${SHELLS_MOUNT}/${shell.number}`);
  const number = shell.start('echo a');
  expect(await failure(number)).toEqual([1, 2]);
  worker.signal(number, KILL, ALL);
  await shell.untilOpened(2);
  worker.signal(number, KILL, ALL);
  expect((await shell.run('echo a')).stdout).toBe('a\n');
  expect(await sleeping(4001)).toEqual(['4001']);
  await shell.close();
  worker.signal(number, KILL, ALL);
  expect(await sleeping(4001)).toEqual(['4001']);
  await other.close();
});

test('a report that comes late takes no input from the next command', async () => {
  const { worker } = guest();
  const shell = await openShell(worker, { argv: ['bash'] });
  await direct(`kill -STOP ${shell.pid()}`);
  const number = shell.start('read v; echo "$v"', { input: true });
  await direct(`: >${SHELLS_MOUNT}/${shell.number}/m`);
  await direct(`kill -CONT ${shell.pid()}`);
  shell.feed(number, 'kept\n');
  expect(await shell.ended(number)).toMatchObject({ code: 0, flags: 0, stdout: 'kept\n' });
  await shell.close();
});
