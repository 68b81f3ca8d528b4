import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { encodeFrame, type, u64 } from './frame-codec.ts';
import { run } from './guest-process.ts';
import { useGuest } from './guest-suite.ts';
import { patience } from './patience.ts';
import { nest as openNest, prepare as prepareIn } from './prepared.ts';
import { processState } from './process-state.ts';
import { readExit } from './test-worker.ts';

const guest = useGuest();

const nest = (number: number) => openNest(guest.worker, number);
const prepare = (number: number) => prepareIn(guest.worker, number);
const gone = (pid: number) => expect.poll(() => existsSync(`/proc/${pid}`), patience).toBe(false);
const sh = (script: string) => ({ argv: ['sh', '-c', script], gated: true, placed: true, nest: 1 });

test('a prepared process runs its command without GO, under the pid that was told before', async () => {
  await nest(1);
  const pid = await prepare(1);
  guest.worker.start(1, sh('echo $$; ls /proc/self/fd | wc -l; cat; exit 7'));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ signal: 0, code: 7 });
  // Three streams and the listing itself.
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe(`${pid}\n4\n`);
});

test('a nest makes one process after another, each in a session of its own and with no signal blocked', async () => {
  await nest(1);
  for (const number of [1, 2, 3]) {
    const pid = await prepare(1);
    guest.worker.start(number, sh('ps -o sid= -p $$; grep SigBlk /proc/self/status; exit 3'));
    expect(readExit(await guest.worker.frame(type.EXIT, number))).toMatchObject({ code: 3 });
    const [session, blocked] = guest.worker.spool(number, 1).bytes().toString().trim().split('\n');
    expect(Number(session)).toBe(pid);
    expect(blocked).toBe('SigBlk:\t0000000000000000');
  }
});

test('a prepared process waits for GO where its start says so', async () => {
  await nest(1);
  await prepare(1);
  guest.worker.start(1, { argv: ['echo', 'ran'], gated: true, nest: 1 });
  guest.worker.start(2, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 2);
  expect(guest.worker.frames.some((f) => f.number === 1 && f.type === type.STARTED)).toBe(false);
  guest.worker.send(encodeFrame(type.GO, 1));
  await guest.worker.frame(type.EXIT, 1);
});

test('a prepared process takes input, or has none', async () => {
  await nest(1);
  await prepare(1);
  guest.worker.start(1, { ...sh('cat'), input: true });
  guest.worker.send(encodeFrame(type.INPUT, 1, Buffer.concat([u64(0), Buffer.from('hello')])));
  guest.worker.send(encodeFrame(type.INPUT_END, 1, u64(5)));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('hello');
});

test('a program that cannot be started in a prepared process fails with its step', async () => {
  await nest(1);
  await prepare(1);
  guest.worker.start(1, { argv: ['/no/such/program'], gated: true, placed: true, nest: 1 });
  expect((await guest.worker.frame(type.FAILED, 1)).payload.readUInt32LE(0)).toBe(5);
});

test('a prepared process that somebody killed is told of, and its command is forked and waits for GO', async () => {
  await nest(1);
  const pid = await prepare(1);
  const from = guest.worker.frames.length;
  process.kill(pid, 'SIGKILL');
  expect((await guest.worker.frame(type.NESTED, 1, from)).payload.readUInt32LE(4)).toBe(0);
  guest.worker.start(1, sh('exit 4'));
  await guest.worker.frame(type.SPAWNED, 1, from);
  guest.worker.send(encodeFrame(type.GO, 1));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ code: 4 });
});

test('a prepared process that was killed in the moment of its start ran nothing, and that is told', async () => {
  await nest(1);
  // The kernel decides what the guest hears first. Where that is the death, the guest forks anew, which is another test's.
  let number = 0;
  for (let heardStart = false; !heardStart; ) {
    number += 1;
    const pid = await prepare(1);
    process.kill(guest.pid, 'SIGSTOP');
    await expect.poll(() => processState(guest.pid), patience).toBe('T');
    guest.worker.start(number, sh('exit 4'));
    process.kill(pid, 'SIGKILL');
    await expect.poll(() => processState(pid), patience).toBe('Z');
    process.kill(guest.pid, 'SIGCONT');
    const told = (kind: number) => guest.worker.frames.find((f) => f.type === kind && f.number === number);
    await guest.worker.until(() => (told(type.FAILED) ?? told(type.SPAWNED)) !== undefined);
    heardStart = told(type.FAILED) !== undefined;
    if (heardStart) expect(told(type.FAILED)?.payload.readUInt32LE(0)).toBe(9);
    else guest.worker.send(encodeFrame(type.GO, number));
  }
  guest.worker.send(encodeFrame(type.FORGET, number));
  guest.worker.start(number + 1, { argv: ['sh', '-c', 'exit 4'] });
  expect(readExit(await guest.worker.frame(type.EXIT, number + 1))).toMatchObject({ code: 4 });
  expect(guest.worker.frames.some((f) => f.number === number && f.type === type.STARTED)).toBe(false);
});

test('a nest that somebody killed is told of', async () => {
  const pid = await nest(1);
  const from = guest.worker.frames.length;
  process.kill(pid, 'SIGTERM');
  process.kill(pid, 'SIGKILL');
  expect((await guest.worker.frame(type.NESTED, 1, from)).payload.readUInt32LE(0)).toBe(0);
  guest.worker.start(1, sh('exit 4'));
  await guest.worker.frame(type.SPAWNED, 1);
});

test('a nest hears no signal but those that cannot be blocked', async () => {
  const pid = await nest(1);
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGUSR1'] as const) process.kill(pid, signal);
  await prepare(1);
  guest.worker.start(1, sh('exit 5'));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ code: 5 });
});

test('a nest that stands still delays nobody', async () => {
  const pid = await nest(1);
  process.kill(pid, 'SIGSTOP');
  guest.worker.send(encodeFrame(type.PREPARE, 1));
  guest.worker.start(1, sh('exit 6'));
  await guest.worker.frame(type.SPAWNED, 1);
  guest.worker.send(encodeFrame(type.GO, 1));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ code: 6 });
  guest.worker.send(encodeFrame(type.UNNEST, 1));
  await gone(pid);
});

test('nests and prepared processes are dropped when a worker comes anew, and on request', async () => {
  const pids = [await nest(1), await prepare(1), await nest(2), await prepare(2)];
  guest.worker.send(encodeFrame(type.UNNEST, 2));
  await Promise.all(pids.slice(2).map(gone));
  guest.worker.drop();
  await guest.worker.connected(2);
  const hello = await guest.worker.frame(type.HELLO, undefined, 1);
  expect(hello.payload.readBigUInt64LE(4)).toBe(0n);
  await guest.worker.until(() => guest.worker.frames.filter((f) => f.type === type.SYNCED).length === 2);
  guest.worker.start(1, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 1);
  await Promise.all(pids.map(gone));
});

test('more are asked for than there are places, and the guest goes on', async () => {
  for (let number = 1; number <= 80; number++) {
    guest.worker.send(encodeFrame(type.NEST, number), encodeFrame(type.PREPARE, number));
  }
  guest.worker.start(81, { argv: ['true'] });
  expect(readExit(await guest.worker.frame(type.EXIT, 81))).toMatchObject({ code: 0 });
});

test('a nest whose process died before it was known makes another', async () => {
  const pid = await nest(1);
  guest.worker.start(1, { argv: ['sleep', '60'] });
  const other = (await guest.worker.frame(type.STARTED, 1)).payload.readUInt32LE(0);
  const still = async (stopped: number) => {
    process.kill(stopped, 'SIGSTOP');
    await expect.poll(() => processState(stopped), patience).toBe('T');
  };
  await still(pid);
  guest.worker.send(encodeFrame(type.PREPARE, 1));
  guest.worker.start(2, { argv: ['true'] });
  await guest.worker.frame(type.EXIT, 2);
  await still(guest.pid);
  // What ends first has the guest reap both before it hears of the second.
  process.kill(other, 'SIGKILL');
  await expect.poll(() => processState(other), patience).toBe('Z');
  process.kill(pid, 'SIGCONT');
  const children = async () => (await run('pgrep', ['-P', String(guest.pid)])).stdout.trim().split('\n').map(Number);
  const hatched = async () => (await children()).find((child) => child !== pid && child !== other);
  await expect.poll(hatched, patience).toBeDefined();
  const spare = (await hatched()) ?? 0;
  process.kill(spare, 'SIGKILL');
  await expect.poll(() => processState(spare), patience).toBe('Z');
  process.kill(guest.pid, 'SIGCONT');
  await guest.worker.frame(type.EXIT, 1);
  expect(await prepare(1)).not.toBe(spare);
});
