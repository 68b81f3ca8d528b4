import { randomBytes, randomInt } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createFrameDecoder, type GuestFrames, GuestViolation } from '../../../services/sandbox-worker/guest/frame.ts';

function recorder(): { frames: GuestFrames; calls: string[] } {
  const calls: string[] = [];
  const note =
    (name: string) =>
    (...args: unknown[]) => {
      calls.push(
        `${name}(${args.map((arg) => (Buffer.isBuffer(arg) ? arg.toString('latin1') : String(arg))).join(',')})`,
      );
    };
  const names = [
    'hello',
    'state',
    'synced',
    'spawned',
    'started',
    'failed',
    'output',
    'inputAck',
    'closed',
    'unknown',
    'awaiting',
  ];
  const frames = Object.fromEntries(names.map((name) => [name, note(name)])) as unknown as GuestFrames;
  frames.exit = (number, exit) => calls.push(`exit(${number},${JSON.stringify(exit)})`);
  return { frames, calls };
}

function frame(type: number, number: number, payload: Buffer, stream = 0): Buffer {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(payload.length, 0);
  header[4] = type;
  header[5] = stream;
  header.writeBigUInt64LE(BigInt(number), 8);
  return Buffer.concat([header, payload]);
}

function output(number: number, stream: number, offset: number, text: string): Buffer {
  const at = Buffer.alloc(8);
  at.writeBigUInt64LE(BigInt(offset));
  return frame(7, number, Buffer.concat([at, Buffer.from(text)]), stream);
}

const pid = Buffer.from([42, 0, 0, 0]);
const conversation = Buffer.concat([
  frame(3, 0, Buffer.alloc(0)),
  frame(5, 7, pid),
  output(7, 1, 0, 'hello '),
  output(7, 2, 3, 'err'),
  frame(10, 7, Buffer.alloc(16)),
]);

describe('the decoder of guest frames', () => {
  test('finds the same frames however the bytes are cut', () => {
    for (let step = 1; step < 40; step++) {
      const { frames, calls } = recorder();
      const decode = createFrameDecoder(frames);
      for (let at = 0; at < conversation.length; at += step) decode(conversation.subarray(at, at + step));
      const text = (name: string, stream: number) =>
        calls
          .filter((call) => call.startsWith(`${name}(7,${stream},`))
          .map((call) => call.replace(/^.*,/s, '').slice(0, -1))
          .join('');
      expect(text('output', 1)).toBe('hello ');
      expect(text('output', 2)).toBe('err');
      expect(calls[0]).toBe('synced()');
      expect(calls[1]).toBe('started(7,42)');
      expect(calls.at(-1)).toBe('closed(7,0,0)');
    }
  });

  test.each([
    ['an unknown type', frame(99, 1, Buffer.alloc(0))],
    ['a control frame of the wrong size', frame(5, 1, Buffer.alloc(5))],
    ['a giant frame', frame(7, 1, Buffer.alloc(262_144 + 9), 1)],
    ['an output frame without bytes', frame(7, 1, Buffer.alloc(8), 1)],
    ['an output frame for no stream', output(1, 3, 0, 'x')],
    ['an offset beyond what can be counted', frame(10, 1, Buffer.alloc(16, 0xff))],
  ])('refuses %s', (_, bytes) => {
    expect(() => createFrameDecoder(recorder().frames)(bytes)).toThrow(GuestViolation);
  });

  test('takes any garbage for a violation or for frames, and nothing else', () => {
    for (let round = 0; round < 2_000; round++) {
      const garbage = randomBytes(randomInt(1, 400));
      if (round % 2 === 0) garbage.fill(0, 0, Math.min(4, garbage.length));
      if (garbage.length > 5 && round % 3 === 0) garbage[4] = 1 + (round % 11);
      try {
        createFrameDecoder(recorder().frames)(garbage);
      } catch (error) {
        expect(error).toBeInstanceOf(GuestViolation);
      }
    }
  });
});
