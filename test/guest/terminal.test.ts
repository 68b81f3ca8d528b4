import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { encodeFrame, readU64, type StartRequest, type, u16, u64 } from './frame-codec.ts';
import { run } from './guest-process.ts';
import { useGuest } from './guest-suite.ts';
import { patience } from './patience.ts';
import { nest, prepare } from './prepared.ts';
import { processState } from './process-state.ts';
import { readExit } from './test-worker.ts';

const WINDOW = 262_144;
const SIGINT = 2;
const SIGUSR1 = 10;
const terminal = { rows: 24, columns: 80 };
const guest = useGuest();

const onTerminal = (number: number, script: string, more: Partial<StartRequest> = {}) =>
  guest.worker.start(number, { argv: ['sh', '-c', script], input: true, terminal, ...more });
const typed = (number: number, offset: number, bytes: Uint8Array | string) =>
  encodeFrame(type.INPUT, number, Buffer.concat([u64(offset), Buffer.from(bytes)]));
const inputEnd = (number: number, length: number) => encodeFrame(type.INPUT_END, number, u64(length));
const screen = (number: number) => guest.worker.spool(number, 1).bytes().toString();
const shows = (number: number, text: string) => guest.worker.until(() => screen(number).includes(text));
const exit = async (number: number) => readExit(await guest.worker.frame(type.EXIT, number));

function written(number: number): number {
  const ack = guest.worker.frames.findLast((f) => f.type === type.INPUT_ACK && f.number === number);
  return ack === undefined ? 0 : readU64(ack.payload, 8);
}

test('a terminal is all three streams, controls the session, has a size and a type', async () => {
  onTerminal(1, 'tty; test -t 0 && test -t 2 && stty size; echo "$TERM"; echo error >&2; echo mine >/dev/tty; exit 7');
  expect(await exit(1)).toMatchObject({ code: 7, signal: 0, stderr: 0 });
  await guest.worker.frame(type.CLOSED, 1);
  expect(screen(1)).toMatch(/^\/dev\/pts\/\d+\r\n24 80\r\nxterm-256color\r\nerror\r\nmine\r\n$/);
});

test('a TERM that is given stays', async () => {
  onTerminal(1, 'echo "$TERM"', { env: ['PATH=/usr/bin:/bin', 'TERM=dumb'] });
  await exit(1);
  expect(screen(1)).toBe('dumb\r\n');
});

test('what is typed is echoed and read, and Ctrl-C interrupts', async () => {
  onTerminal(1, 'read line; echo "got $line"; exec sleep 60');
  guest.worker.send(typed(1, 0, 'hello\r'));
  await shows(1, 'hello\r\ngot hello\r\n');
  guest.worker.send(typed(1, 6, '\x03'));
  expect(await exit(1)).toMatchObject({ signal: SIGINT });
});

test('input before GO is kept for the program', async () => {
  onTerminal(1, 'read line; echo "got $line"', { gated: true });
  guest.worker.send(typed(1, 0, 'early\n'), encodeFrame(type.GO, 1));
  expect(await exit(1)).toMatchObject({ code: 0 });
  expect(screen(1)).toContain('got early');
});

test('a prepared process can have a terminal too', async () => {
  await nest(guest.worker, 1);
  await prepare(guest.worker, 1);
  onTerminal(1, 'stty size; cat', { gated: true, placed: true, nest: 1 });
  guest.worker.send(typed(1, 0, 'a\n'), inputEnd(1, 2));
  expect(await exit(1)).toMatchObject({ code: 0 });
  expect(screen(1)).toMatch(/24 80\r\n(a\r\n){1,2}$/);
});

test('a new size is told to the program', async () => {
  onTerminal(1, "trap 'stty size' WINCH; echo ready; while :; do sleep 60 & wait; done");
  await shows(1, 'ready');
  guest.worker.send(encodeFrame(type.RESIZE, 1, u16(50, 132)));
  await shows(1, '50 132');
});

test('a size for an execution without a terminal is ignored', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.send(encodeFrame(type.RESIZE, 1, u16(50, 132)), inputEnd(1, 0));
  expect(await exit(1)).toMatchObject({ code: 0 });
  expect(guest.worker.connections).toBe(1);
});

test.each([
  ['after a line', 'whole\n'],
  ['within a line', 'whole\npart'],
  ['without any', ''],
])('the end of input ends what reads the terminal: %s', async (_, bytes) => {
  onTerminal(1, 'stty -echo; echo ready; cat');
  await shows(1, 'ready');
  guest.worker.send(typed(1, 0, bytes), inputEnd(1, bytes.length));
  expect(await exit(1)).toMatchObject({ code: 0 });
  expect(screen(1)).toBe(`ready\r\n${bytes.replaceAll('\n', '\r\n')}`);
});

test('a signal for the group goes to the one in the foreground', async () => {
  onTerminal(1, 'set -m; trap "echo shell" USR1; sleep 60; echo "status $?"');
  const shell = (await guest.worker.frame(type.STARTED, 1)).payload.readUInt32LE(0);
  const children = async () => (await run('ps', ['-eo', 'ppid=,args='])).stdout.split('\n').map((line) => line.trim());
  await expect.poll(children, patience).toContain(`${shell} sleep 60`);
  guest.worker.signal(1, SIGUSR1, 2);
  await shows(1, 'status 138');
  expect(screen(1)).not.toContain('shell');
});

test('all output is there before the end, however much', async () => {
  onTerminal(1, "stty -opost; head -c 3000000 /dev/zero | tr '\\0' x; exit 3");
  expect(await exit(1)).toMatchObject({ code: 3, stdout: 3_000_000 });
  expect(guest.worker.spool(1, 1).length).toBe(3_000_000);
});

test('a chatty process in the background does not hold the end back', async () => {
  onTerminal(1, "trap '' HUP; yes & exit 4");
  expect(await exit(1)).toMatchObject({ code: 4 });
  expect(guest.worker.frames.some((frame) => frame.type === type.CLOSED)).toBe(false);
  guest.worker.signal(1, 9, 3);
  await guest.worker.frame(type.CLOSED, 1);
});

test('what is written after the end is kept and counted apart', async () => {
  const fifo = join(guest.build.directory, 'late.fifo');
  await run('mkfifo', [fifo]);
  onTerminal(1, `trap '' HUP; { read line <${fifo}; echo late; } & echo early`);
  expect(await exit(1)).toMatchObject({ code: 0, stdout: 7 });
  await run('sh', ['-c', `echo >${fifo}`]);
  const closed = await guest.worker.frame(type.CLOSED, 1);
  expect(readU64(closed.payload, 0)).toBe(13);
  expect(screen(1)).toBe('early\r\nlate\r\n');
});

test('a program that closes its descriptors is not hung up and finds the terminal again', async () => {
  onTerminal(
    1,
    'exec 3>&- </dev/null >/dev/null 2>&1; sleep 0.2; echo back >/dev/tty; read line </dev/tty; exit "$line"',
  );
  await shows(1, 'back');
  guest.worker.send(typed(1, 0, '9\n'));
  expect(await exit(1)).toMatchObject({ code: 9 });
});

test('raw input passes byte for byte, more than the terminal holds', async () => {
  const bytes = randomBytes(2 << 20);
  const digest = createHash('sha256').update(bytes).digest('hex');
  onTerminal(1, `stty raw -echo; echo ready; head -c ${bytes.length} | sha256sum`);
  await shows(1, 'ready');
  for (let sent = 0; sent < bytes.length; ) {
    const end = Math.min(bytes.length, written(1) + WINDOW);
    guest.worker.send(typed(1, sent, bytes.subarray(sent, end)));
    sent = end;
    await guest.worker.until(() => written(1) + WINDOW > sent);
  }
  expect(await exit(1)).toMatchObject({ code: 0 });
  expect(screen(1)).toContain(digest);
});

async function guestTicks(): Promise<number> {
  const fields = (await readFile(`/proc/${guest.pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

test('lines that nobody reads wait without a loss and without work', async () => {
  const line = `${'x'.repeat(1023)}\n`;
  const lines = 1500;
  const bytes = Buffer.from(line.repeat(lines));
  onTerminal(1, `stty -echo; echo ready; kill -STOP $$; head -c ${bytes.length} | sha256sum`);
  const { payload } = await guest.worker.frame(type.STARTED, 1);
  await shows(1, 'ready');
  await expect.poll(() => processState(payload.readUInt32LE(0)), patience).toBe('T');
  let sent = 0;
  const push = () => {
    const end = Math.min(bytes.length, written(1) + WINDOW);
    if (end > sent) guest.worker.send(typed(1, sent, bytes.subarray(sent, end)));
    sent = end;
  };
  // Until it takes no more: another execution passes without an acknowledgement.
  for (let before = -1, number = 2; before !== written(1); number++) {
    before = written(1);
    push();
    guest.worker.start(number, { argv: ['sleep', '0.2'] });
    await guest.worker.frame(type.EXIT, number);
  }
  expect(written(1)).toBeLessThan(bytes.length);
  const ticks = await guestTicks();
  guest.worker.start(100, { argv: ['sleep', '0.5'] });
  await guest.worker.frame(type.EXIT, 100);
  expect((await guestTicks()) - ticks).toBeLessThan(10);
  guest.worker.signal(1, 18, 1);
  while (sent < bytes.length) {
    push();
    await guest.worker.until(() => written(1) + WINDOW > sent || sent === bytes.length);
  }
  await exit(1);
  expect(screen(1)).toContain(createHash('sha256').update(bytes).digest('hex'));
});

test('a lost connection costs nothing', async () => {
  onTerminal(1, 'while read line; do echo "[$line]"; done; echo over');
  guest.worker.send(typed(1, 0, 'one\n'));
  await shows(1, '[one]');
  guest.worker.drop();
  await guest.worker.connected(2);
  const state = await guest.worker.frame(type.STATE, 1);
  expect(readU64(state.payload, 16)).toBe(4);
  guest.worker.send(typed(1, 0, 'one\ntwo\n'), encodeFrame(type.RESIZE, 1, u16(1, 1)), inputEnd(1, 8));
  await guest.worker.frame(type.CLOSED, 1);
  expect(screen(1).match(/\[\w+\]|over/g)).toEqual(['[one]', '[two]', 'over']);
});

test('a program that is not there leaves no terminal behind', async () => {
  guest.worker.start(1, { argv: ['/no/such'], input: true, terminal });
  const { payload } = await guest.worker.frame(type.FAILED, 1);
  expect([payload.readUInt32LE(0), payload.readUInt32LE(4)]).toEqual([5, 2]);
  const { stdout } = await run('ls', ['-l', `/proc/${guest.pid}/fd`]);
  expect(stdout).not.toContain('pts');
});
