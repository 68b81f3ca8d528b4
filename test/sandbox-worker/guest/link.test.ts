import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { GuestViolation } from '../../../services/sandbox-worker/guest/frame.ts';
import { type GuestLink, type LinkEvents, listenForGuest } from '../../../services/sandbox-worker/guest/link.ts';
import { createLog } from '../../../services/shared/log.ts';
import { encodeFrame, type, u32, u64 } from '../../guest/frame-codec.ts';
import { runDirectory } from '../../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'link-'));
afterAll(() => rmSync(directory, { recursive: true }));
const path = join(directory, 'guest.sock');
const secret = randomBytes(32);
const names = [
  ...['connected', 'disconnected', 'violated', 'delivered', 'state', 'synced', 'spawned', 'started', 'failed'],
  ...['output', 'inputAck', 'exit', 'closed', 'unknown', 'nested', 'awaiting', 'shell'],
] as const;

let events: Record<keyof LinkEvents, ReturnType<typeof vi.fn>>;
let link: GuestLink;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  events = Object.fromEntries(names.map((name) => [name, vi.fn()])) as typeof events;
  link = await listenForGuest(() => path, secret, events as unknown as LinkEvents, createLog('test', 'silent'));
});
afterEach(async () => {
  await link.close();
  vi.useRealTimers();
});

/** Comes as the guest does; says whether it was welcome. */
async function come(): Promise<{ guest: Socket; welcome: boolean }> {
  const guest = connect(path);
  guest.on('error', () => {});
  guest.write(encodeFrame(type.HELLO, 0, Buffer.concat([u32(1), u64(0), secret])));
  const welcome = await new Promise<boolean>((resolve) => {
    guest.once('data', () => resolve(true));
    guest.once('close', () => resolve(false));
  });
  return { guest, welcome };
}

const output = encodeFrame(type.OUTPUT, 1, Buffer.concat([u64(0), Buffer.from('printed')]), 1);

test('what the worker itself cannot do is no fault of the guest, which comes again', async () => {
  const { guest } = await come();
  events.output.mockImplementationOnce(() => {
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  });
  guest.write(output);
  await once(guest, 'close');
  expect(events.violated).not.toHaveBeenCalled();
  expect(events.disconnected).toHaveBeenCalledOnce();
  expect((await come()).welcome).toBe(false);
  vi.advanceTimersByTime(1_000);
  const again = await come();
  expect(again.welcome).toBe(true);
  const taken = new Promise((resolve) => events.output.mockImplementationOnce(resolve));
  again.guest.write(output);
  await taken;
});

test('a guest that breaks the protocol is told as such', async () => {
  const { guest } = await come();
  events.output.mockImplementationOnce(() => {
    throw new GuestViolation('output at offset 7, expected 0');
  });
  guest.write(output);
  await once(guest, 'close');
  expect(events.violated).toHaveBeenCalledWith('output at offset 7, expected 0');
});

test('strangers without the secret are refused, and keep the guest out for a moment only', async () => {
  const liar = connect(path);
  liar.on('error', () => {});
  liar.write(encodeFrame(type.HELLO, 0, Buffer.concat([u32(1), u64(0), randomBytes(32)])));
  await once(liar, 'close');
  const strangers = Array.from({ length: 40 }, () => connect(path).on('error', () => {}));
  await Promise.all(strangers.slice(32).map((stranger) => once(stranger.resume(), 'close')));
  vi.advanceTimersByTime(100);
  const { welcome } = await come();
  expect(welcome).toBe(true);
  await Promise.all(strangers.slice(0, 32).map((stranger) => stranger.closed || once(stranger.resume(), 'close')));
});

test('what a guest says much of at once is taken a few frames in each turn of its project, in order', async () => {
  await link.close();
  const turns: (() => void)[] = [];
  let busy = false;
  const turn = (): Promise<void> | undefined => (busy ? new Promise((resolve) => turns.push(resolve)) : undefined);
  const quiet = createLog('test', 'silent');
  link = await listenForGuest(() => path, secret, events as unknown as LinkEvents, quiet, turn);
  const { guest } = await come();
  busy = true;
  const started = Array.from({ length: 100 }, (_, index) => encodeFrame(type.STARTED, index + 1, u32(1)));
  guest.write(Buffer.concat(started));
  await vi.waitFor(() => expect(turns).toHaveLength(1));
  expect(events.started).not.toHaveBeenCalled();
  turns.shift()?.();
  await vi.waitFor(() => expect(turns).toHaveLength(1));
  expect(events.started.mock.calls.length).toBeLessThan(50);
  busy = false;
  turns.shift()?.();
  await vi.waitFor(() => expect(events.started).toHaveBeenCalledTimes(100));
  expect(events.started.mock.calls.map(([number]) => Number(number))).toEqual(started.map((_, index) => index + 1));
  guest.write(encodeFrame(type.STARTED, 101, u32(1)));
  await vi.waitFor(() => expect(events.started).toHaveBeenCalledTimes(101));
});
