import { existsSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { encodeFrame, type, u64 } from './frame-codec.ts';
import { createGuestBuild, type GuestBuild, type GuestProcess, startGuest } from './guest-process.ts';
import { readExit } from './test-worker.ts';

let build: GuestBuild;
let guest: GuestProcess;

beforeAll(async () => {
  build = await createGuestBuild();
  await build.make(`${build.directory}/guest`);
});
afterAll(() => build.remove());
beforeEach(async () => {
  guest = await startGuest(build);
  await guest.worker.frame(type.SYNCED);
});
afterEach(() => guest.stop());

/** Asks for a process and resolves with its pid. */
async function prepare(number: number): Promise<number> {
  guest.worker.send(encodeFrame(type.PREPARE, number));
  return (await guest.worker.frame(type.SPAWNED, number)).payload.readUInt32LE(0);
}

const sh = (script: string) => ({ argv: ['sh', '-c', script], gated: true, placed: true });

test('a prepared process runs its command without GO, under the pid that was told before', async () => {
  const pid = await prepare(1);
  guest.worker.start(1, sh('echo $$; ls /proc/self/fd | wc -l; cat; exit 7'));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ signal: 0, code: 7 });
  // Three streams and the listing itself.
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe(`${pid}\n4\n`);
});

test('a prepared process waits for GO where its start says so', async () => {
  await prepare(1);
  guest.worker.start(1, { argv: ['echo', 'ran'], gated: true });
  guest.worker.start(2, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 2);
  expect(guest.worker.frames.some((f) => f.number === 1 && f.type === type.STARTED)).toBe(false);
  guest.worker.send(encodeFrame(type.GO, 1));
  await guest.worker.frame(type.EXIT, 1);
});

test('a prepared process takes input, or has none', async () => {
  await prepare(1);
  guest.worker.start(1, { ...sh('cat'), input: true });
  guest.worker.send(encodeFrame(type.INPUT, 1, Buffer.concat([u64(0), Buffer.from('hello')])));
  guest.worker.send(encodeFrame(type.INPUT_END, 1, u64(5)));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('hello');
});

test('a program that cannot be started in a prepared process fails with its step', async () => {
  await prepare(1);
  guest.worker.start(1, { argv: ['/no/such/program'], gated: true, placed: true });
  expect((await guest.worker.frame(type.FAILED, 1)).payload.readUInt32LE(0)).toBe(5);
});

test('a prepared process that somebody killed is replaced, and its command waits for GO', async () => {
  const pid = await prepare(1);
  process.kill(pid, 'SIGKILL');
  await vi.waitFor(() => expect(existsSync(`/proc/${pid}`)).toBe(false));
  const from = guest.worker.frames.length;
  guest.worker.start(1, sh('exit 4'));
  await guest.worker.frame(type.SPAWNED, 1, from);
  guest.worker.send(encodeFrame(type.GO, 1));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ code: 4 });
});

test('prepared processes are dropped when a worker comes anew, and their numbers are not seen', async () => {
  const pid = await prepare(5);
  guest.worker.drop();
  await guest.worker.connected(2);
  const hello = await guest.worker.frame(type.HELLO, undefined, 1);
  expect(hello.payload.readBigUInt64LE(4)).toBe(0n);
  const from = guest.worker.frames.length;
  await guest.worker.until(() => guest.worker.frames.filter((f) => f.type === type.SYNCED).length === 2);
  expect(guest.worker.frames.slice(from).some((f) => f.number === 5)).toBe(false);
  guest.worker.start(1, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 1);
  await vi.waitFor(() => expect(existsSync(`/proc/${pid}`)).toBe(false));
});

test('more are asked for than there are places, and the guest goes on', async () => {
  for (let number = 1; number <= 20; number++) guest.worker.send(encodeFrame(type.PREPARE, number));
  guest.worker.start(21, { argv: ['true'] });
  expect(readExit(await guest.worker.frame(type.EXIT, 21))).toMatchObject({ code: 0 });
});
