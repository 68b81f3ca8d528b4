import { createHash, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { encodeFrame, encodeStart, readU64, type, u64 } from './frame-codec.ts';
import { useGuest } from './guest-suite.ts';
import { patience } from './patience.ts';
import { processState } from './process-state.ts';
import { readExit } from './test-worker.ts';

const WINDOW = 262_144;
const guest = useGuest();

const input = (number: number, offset: number, bytes: Uint8Array | string) =>
  encodeFrame(type.INPUT, number, Buffer.concat([u64(offset), Buffer.from(bytes)]));
const inputEnd = (number: number, length: number) => encodeFrame(type.INPUT_END, number, u64(length));

function lastAck(number: number) {
  const ack = guest.worker.frames.findLast((f) => f.type === type.INPUT_ACK && f.number === number);
  if (ack === undefined) return { received: 0, written: 0, closed: false, ended: false };
  const flags = ack.payload.readUInt8(16);
  const [received, written] = [readU64(ack.payload, 0), readU64(ack.payload, 8)];
  return { received, written, closed: (flags & 1) !== 0, ended: (flags & 2) !== 0 };
}

test('input arrives once, whatever is sent again, and ends where it is told to', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.send(input(1, 0, 'hello '), input(1, 0, 'hello '), input(1, 3, 'lo world'), inputEnd(1, 11));
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).code).toBe(0);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('hello world');
  expect(lastAck(1)).toEqual({ received: 11, written: 11, closed: true, ended: true });
});

test('an end may be told before its bytes', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.send(inputEnd(1, 5));
  await guest.worker.until(() => lastAck(1).ended);
  expect(lastAck(1)).toEqual({ received: 0, written: 0, closed: false, ended: true });
  guest.worker.send(input(1, 0, 'abcde'));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('abcde');
});

test('input before GO is kept for the program', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true, gated: true });
  guest.worker.send(input(1, 0, 'early'), inputEnd(1, 5), encodeFrame(type.GO, 1));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('early');
});

test('a lost connection is no end of input', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.send(input(1, 0, 'one'));
  await guest.worker.until(() => guest.worker.spool(1, 1).length === 3);
  guest.worker.drop();
  await guest.worker.connected(2);
  const state = await guest.worker.frame(type.STATE, 1);
  expect(readU64(state.payload, 16)).toBe(3);
  guest.worker.send(input(1, 3, 'two'), inputEnd(1, 6));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('onetwo');
});

test('a program that closes its input is told at once, later bytes are dropped', async () => {
  guest.worker.start(1, { argv: ['sh', '-c', 'exec 0<&-; echo closed; sleep 60'], input: true });
  await guest.worker.until(() => lastAck(1).closed);
  guest.worker.send(input(1, 0, 'x'.repeat(WINDOW)), input(1, WINDOW, 'more'), inputEnd(1, 1));
  guest.worker.start(2, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 2);
  expect(guest.worker.connections).toBe(1);
});

test('a program that ends with input unread ends', async () => {
  guest.worker.start(1, { argv: ['sh', '-c', 'read line; echo "$line"'], input: true });
  guest.worker.send(input(1, 0, `first\n${'x'.repeat(200_000)}`));
  await guest.worker.frame(type.CLOSED, 1);
  await guest.worker.until(() => lastAck(1).closed);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('first\n');
});

test('an execution without input answers that it is closed', async () => {
  guest.worker.start(1, { argv: ['sleep', '60'] });
  guest.worker.send(input(1, 0, 'x'));
  await guest.worker.until(() => lastAck(1).closed);
});

test('eight mebibytes pass through a program both ways within the window', async () => {
  const bytes = randomBytes(8 << 20);
  guest.worker.start(1, { argv: ['cat'], input: true });
  let sent = 0;
  while (sent < bytes.length) {
    await guest.worker.until(() => lastAck(1).written + WINDOW > sent);
    const end = Math.min(bytes.length, lastAck(1).written + WINDOW);
    guest.worker.send(input(1, sent, bytes.subarray(sent, end)));
    sent = end;
  }
  guest.worker.send(inputEnd(1, bytes.length));
  await guest.worker.frame(type.CLOSED, 1);
  const hash = (data: Buffer) => createHash('sha256').update(data).digest('hex');
  expect(hash(guest.worker.spool(1, 1).bytes())).toBe(hash(bytes));
});

test('input beyond the window, after a hole or past its end breaks the connection and nothing else', async () => {
  guest.worker.start(1, { argv: ['sleep', '60'], input: true });
  await guest.worker.frame(type.STARTED, 1);
  const broken = [
    [input(1, 1, 'a hole')],
    [input(1, 0, 'x'.repeat(WINDOW + 65_536 + 1))],
    [inputEnd(1, 2), input(1, 0, 'abc')],
    [inputEnd(1, 3)],
  ];
  for (const [i, frames] of broken.entries()) {
    guest.worker.send(...frames);
    await guest.worker.connected(i + 2);
    await guest.worker.until(() => guest.worker.frames.filter((f) => f.type === type.SYNCED).length === i + 2);
  }
  expect(guest.worker.frames.some((f) => f.type === type.EXIT)).toBe(false);
});

test('the end of a reader is not told to the next execution in its place', async () => {
  const script = 'exec 3<&0; sleep 60 >/dev/null 2>&1 & echo $!';
  guest.worker.start(1, { argv: ['sh', '-c', script], input: true });
  await guest.worker.frame(type.CLOSED, 1);
  const holder = Number(guest.worker.spool(1, 1).bytes());
  // While it stands still both come to the guest, and it finds them at once, in this order.
  process.kill(guest.pid, 'SIGSTOP');
  await expect.poll(() => processState(guest.pid), patience).toBe('T');
  const forget = encodeFrame(type.FORGET, 1);
  guest.worker.send(forget, encodeStart(2, { argv: ['cat'], input: true }), input(2, 0, 'kept'), inputEnd(2, 4));
  process.kill(holder, 'SIGKILL');
  await expect.poll(() => processState(holder), patience).toBe('Z');
  process.kill(guest.pid, 'SIGCONT');
  await guest.worker.frame(type.CLOSED, 2);
  expect(guest.worker.spool(2, 1).bytes().toString()).toBe('kept');
});
