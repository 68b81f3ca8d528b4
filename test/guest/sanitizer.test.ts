import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeFrame, encodeShellStart, encodeStart, type, u32, u64 } from './frame-codec.ts';
import { createGuestBuild, type GuestBuild, startGuest } from './guest-process.ts';
import { readExit } from './test-worker.ts';

/** Compilers and sanitizers are slow where others work too. */
const patient = { timeout: 300_000 };
const LAST = 2 ** 40;
let build: GuestBuild;

beforeAll(async () => {
  build = await createGuestBuild();
});
afterAll(() => build.remove());

test('the unit tests pass under the sanitizers', patient, async () => {
  expect(await build.make('test')).toMatch(/\d+ checks/);
});

test('a bounded fuzz run of decoder and ring passes under the sanitizers', patient, async () => {
  expect(await build.make('fuzz', 'FUZZ_ROUNDS=100000')).toContain('100000 rounds');
});

/** The same numbers every time. */
function createRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

function randomFrame(random: (limit: number) => number, highest: number): Buffer {
  const number = 1 + random(highest + 1);
  const offset = u64(random(3) * random(300_000));
  const frames = [
    () =>
      encodeStart(number, { argv: ['echo', 'x'.repeat(random(2000))], gated: random(3) === 0, input: random(2) === 0 }),
    () => encodeStart(number, { argv: ['cat'], input: true, terminal: { rows: random(99), columns: random(99) } }),
    () => encodeFrame(type.PREPARE, number),
    () => encodeFrame(type.RESIZE, number, u32(random(9_999_999))),
    () => encodeFrame(type.GO, number),
    () => encodeFrame(type.ACK, number, offset, 1 + random(2)),
    () => encodeFrame(type.INPUT, number, Buffer.concat([offset, Buffer.alloc(random(70_000))])),
    () => encodeFrame(type.INPUT_END, number, offset),
    () => encodeFrame(type.SIGNAL, number, u32(random(2) === 0 ? 9 : 15, 1 + random(3))),
    () => encodeFrame(type.FORGET, number),
    () => encodeStart(number, { argv: random(4) === 0 ? [] : ['sh'], gated: random(3) === 0 }, type.OPEN_SHELL),
    () => encodeShellStart(number, 1 + random(highest), 'echo x; '.repeat(random(2000)), random(2) === 0),
    () => encodeShellStart(number, 1 + random(highest), 'exit 3'),
    () => encodeFrame(type.CLOSE_SHELL, number),
    () => encodeFrame(type.INTERRUPT, number),
  ];
  const frame = frames[random(frames.length)]?.() ?? Buffer.alloc(0);
  const at = random(Math.min(frame.length, 40));
  // The high bytes of the number stay, so that a larger one is left for the end.
  if (random(20) === 0 && (at < 12 || at > 15)) frame.writeUInt8(random(256), at);
  return frame;
}

test('a checked guest outlives a worker that sends anything in any order', patient, async () => {
  await build.make('checked');
  // In a pid namespace where that is allowed: whatever a guest kills by mistake is its own.
  const guest = await startGuest(build, { program: 'guest-checked', init: process.getuid?.() === 0 });
  const random = createRandom(7);
  let ended = false;
  guest.process.once('exit', () => {
    ended = true;
  });
  await guest.worker.frame(type.SYNCED);
  guest.worker.acknowledge = false;
  guest.worker.checked = false;
  for (let connection = 2; connection <= 60; connection++) {
    for (let i = 0; i < 60; i++) guest.worker.send(randomFrame(random, connection * 10));
    // Ends the connection, if nothing before it did; the rest fills a frame whose length was a lie.
    guest.worker.send(encodeFrame(type.WELCOME, 0), Buffer.alloc(1_200_000));
    await guest.worker.connected(connection);
    await guest.worker.until(() => guest.worker.frames.filter((f) => f.type === type.SYNCED).length >= connection);
  }
  guest.worker.start(LAST, { argv: ['sh', '-c', 'exit 3'] });
  const answer = await Promise.race([
    guest.worker.frame(type.EXIT, LAST).then((frame) => readExit(frame).code),
    guest.worker.frame(type.FAILED, LAST).then(() => 'full'),
  ]);
  expect([3, 'full']).toContain(answer);
  expect(ended).toBe(false);
  await guest.stop();
});
