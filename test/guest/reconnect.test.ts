import { createHash, randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { encodeFrame, encodeStart, readU64, type, u32, u64 } from './frame-codec.ts';
import { useGuest } from './guest-suite.ts';
import { patience } from './patience.ts';
import { readExit } from './test-worker.ts';

const guest = useGuest();

const sh = (script: string) => ({ argv: ['sh', '-c', script] });
const count = (kind: number) => guest.worker.frames.filter((f) => f.type === kind).length;

test('after a reconnect every live execution is announced with all that is true of it', async () => {
  guest.worker.start(1, sh('sleep 60'));
  guest.worker.start(2, sh('echo two; exit 2'));
  guest.worker.start(3, { ...sh('true'), gated: true });
  guest.worker.start(4, { argv: ['/no/such/program'] });
  guest.worker.start(9, sh('true'));
  await guest.worker.frame(type.STARTED, 1);
  await guest.worker.frame(type.CLOSED, 2);
  await guest.worker.frame(type.SPAWNED, 3);
  await guest.worker.frame(type.FAILED, 4);
  await guest.worker.frame(type.CLOSED, 9);
  guest.worker.send(encodeFrame(type.FORGET, 9), encodeFrame(type.FORGET, 4));
  guest.worker.start(9, sh('true'));
  await guest.worker.frame(type.UNKNOWN, 9);
  const from = guest.worker.frames.length;
  guest.worker.drop();
  await guest.worker.connected(2);
  await guest.worker.frame(type.CLOSED, 2, from);
  const frames = guest.worker.frames.slice(from);
  expect(frames[0]?.type).toBe(type.HELLO);
  expect(readU64(frames[0]?.payload ?? Buffer.alloc(12), 4)).toBe(9);
  const synced = frames.findIndex((f) => f.type === type.SYNCED);
  const states = frames.flatMap((f, i) => (f.type === type.STATE ? [[f.number, i < synced]] : []));
  expect(states).toEqual([1, 2, 3].map((n) => [n, true]));
  const said = (n: number) => frames.filter((f) => f.number === n && f.type !== type.INPUT_ACK).map((f) => f.type);
  expect(said(1)).toEqual([type.STATE, type.STARTED]);
  expect(said(2)).toEqual([type.STATE, type.STARTED, type.EXIT, type.CLOSED]);
  expect(said(3)).toEqual([type.STATE, type.SPAWNED]);
  guest.worker.send(encodeFrame(type.GO, 3));
  await guest.worker.frame(type.CLOSED, 3);
});

test('what was not acknowledged is sent again from the acknowledged byte, and an acknowledgement may run ahead', async () => {
  guest.worker.acknowledge = false;
  guest.worker.start(1, sh('printf 0123456789; sleep 60'));
  await guest.worker.until(() => guest.worker.spool(1, 1).length === 10);
  guest.worker.send(encodeFrame(type.ACK, 1, u64(4), 1));
  guest.worker.start(2, sh('true'));
  await guest.worker.frame(type.EXIT, 2);
  for (const [offset, ack] of [
    [4, 8],
    [8, 10],
  ] as const) {
    const from = guest.worker.frames.length;
    guest.worker.drop();
    const output = await guest.worker.frame(type.OUTPUT, 1, from);
    expect(readU64(output.payload, 0)).toBe(offset);
    expect(output.payload.subarray(8).toString()).toBe('0123456789'.slice(offset));
    guest.worker.send(encodeFrame(type.ACK, 1, u64(ack), 1));
    guest.worker.start(2 + ack, sh('true'));
    await guest.worker.frame(type.EXIT, 2 + ack);
  }
});

test('no byte is lost or doubled when the connection breaks at random moments', async () => {
  const bytes = randomBytes(16 << 20);
  const file = join(guest.build.directory, 'random');
  await writeFile(file, bytes);
  guest.worker.start(1, sh(`cat '${file}' & cat '${file}' >&2; wait`));
  let breaks = 0;
  while (breaks < 40 && count(type.EXIT) === 0) {
    const mark = guest.worker.spool(1, 1).length + Math.floor(Math.random() * 700_000);
    await guest.worker.until(() => guest.worker.spool(1, 1).length >= mark || count(type.EXIT) > 0);
    const connections = guest.worker.connections;
    guest.worker.drop();
    breaks += 1;
    await guest.worker.connected(connections + 1);
  }
  const exit = readExit(await guest.worker.frame(type.EXIT, 1));
  expect(breaks).toBeGreaterThan(5);
  expect(exit).toMatchObject({ code: 0, stdout: bytes.length, stderr: bytes.length });
  const hash = (data: Buffer) => createHash('sha256').update(data).digest('hex');
  expect(hash(guest.worker.spool(1, 1).bytes())).toBe(hash(bytes));
  expect(hash(guest.worker.spool(1, 2).bytes())).toBe(hash(bytes));
});

test('what ends while nobody is connected is told afterwards', async () => {
  guest.worker.welcome = false;
  guest.worker.start(1, sh('read line; echo gone; exit 9'));
  await guest.worker.frame(type.STARTED, 1);
  guest.worker.drop();
  await guest.worker.connected(2);
  await guest.worker.until(() => count(type.HELLO) === 2);
  expect(guest.worker.frames.at(-1)?.type).toBe(type.HELLO);
  guest.worker.send(encodeFrame(type.WELCOME, 0));
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).code).toBe(9);
});

const hostile: Record<string, Buffer[]> = {
  'an unknown type': [encodeFrame(99, 1)],
  'a type of the guest': [encodeFrame(type.HELLO, 0, Buffer.alloc(44))],
  'a second welcome': [encodeFrame(type.WELCOME, 0)],
  'a length above the limit': [Buffer.concat([u32(1 << 21), encodeFrame(type.START, 1).subarray(4)])],
  'an acknowledgement of bytes that do not exist': [encodeFrame(type.ACK, 1, u64(1 << 30), 1)],
  'an acknowledgement of no stream': [encodeFrame(type.ACK, 1, u64(0), 3)],
  'a start without arguments': [encodeFrame(type.START, 7, u32(0, 0, 0, 0, 0, 0))],
  'a start whose count lies': [encodeFrame(type.START, 7, u32(0, 0, 0, 4096, 0, 0))],
  'a start whose string is longer than the frame': [encodeFrame(type.START, 7, u32(0, 0, 0, 1, 0, 0xffffffff))],
  'a start with a NUL': [encodeStart(7, { argv: ['sh', 'a\0b'] })],
  'a signal that does not exist': [encodeFrame(type.SIGNAL, 1, u32(65, 1))],
  'a scope that does not exist': [encodeFrame(type.SIGNAL, 1, u32(15, 4))],
};

test.for(Object.entries(hostile))('%s breaks the connection and nothing else', async ([, frames]) => {
  guest.worker.start(1, sh('sleep 60'));
  await guest.worker.frame(type.STARTED, 1);
  guest.worker.send(...frames);
  await guest.worker.connected(2);
  await guest.worker.until(() => count(type.SYNCED) === 2);
  expect(count(type.EXIT)).toBe(0);
  guest.worker.start(8, sh('exit 8'));
  expect(readExit(await guest.worker.frame(type.EXIT, 8)).code).toBe(8);
});

test('a thousand questions at once are all answered', async () => {
  guest.worker.start(2000, sh('true'));
  await guest.worker.frame(type.CLOSED, 2000);
  guest.worker.send(...Array.from({ length: 1000 }, (_, i) => encodeStart(i + 1, sh('true'))));
  await guest.worker.until(() => count(type.UNKNOWN) === 1000);
  expect(new Set(guest.worker.frames.filter((f) => f.type === type.UNKNOWN).map((f) => f.number)).size).toBe(1000);
  expect(guest.worker.connections).toBe(1);
});

test('a hundred thousand questions to a worker that does not read are all answered once it does', async () => {
  const questions = 100_000;
  guest.worker.start(questions + 1, sh('true'));
  await guest.worker.frame(type.CLOSED, questions + 1);
  guest.worker.pause();
  guest.worker.send(...Array.from({ length: questions }, (_, i) => encodeStart(i + 1, sh('true'))));
  guest.worker.start(questions + 2, sh('true'));
  guest.worker.resume();
  await guest.worker.frame(type.EXIT, questions + 2);
  await guest.worker.until(() => count(type.UNKNOWN) === questions);
  expect(guest.worker.connections).toBe(1);
});

test('frames before WELCOME break the connection', async () => {
  guest.worker.welcome = false;
  guest.worker.drop();
  await guest.worker.connected(2);
  guest.worker.start(1, sh('true'));
  await guest.worker.connected(3);
  expect(count(type.STARTED)).toBe(0);
});

test('a connected guest does not wake up while nothing happens', async () => {
  const switches = async () =>
    Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(await readFile(`/proc/${guest.pid}/status`, 'utf8'))?.[1]);
  guest.worker.start(1, sh('sleep 60'));
  await guest.worker.frame(type.STARTED, 1);
  // What it still had to do at the start is over at some time; a timer of its own would never be.
  const sleeps = async () => {
    const before = await switches();
    await delay(300);
    return (await switches()) === before;
  };
  await expect.poll(sleeps, patience).toBe(true);
});
