import { describe, expect, test } from 'vitest';
import { createLineReader } from '../../services/sessions/worker/line-reader.ts';
import { grpcFrame, trailersFrame } from '../../services/shared/grpc-frame.ts';

const head = Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web+proto\r\n\r\n');
const messages = Buffer.concat([
  grpcFrame(Buffer.from('one')),
  grpcFrame(Buffer.alloc(0)),
  grpcFrame(Buffer.alloc(300)),
]);
const trailers = { 'grpc-status': '9', 'grpc-message': 'no: %C3%BC, not so' };
const whole = Buffer.concat([head, messages, trailersFrame(trailers)]);

/** What a reader makes of an answer that comes in these pieces. */
function read(pieces: readonly Buffer[]) {
  const seen = { begun: 0, frames: [] as Buffer[], lent: 0, ends: [] as Record<string, string>[] };
  const reader = createLineReader({
    begin: () => {
      seen.begun += 1;
    },
    frames(bytes, release) {
      seen.frames.push(Buffer.from(bytes));
      release();
      return true;
    },
    end: (found) => seen.ends.push(found),
  });
  for (const piece of pieces) {
    seen.lent += 1;
    // Memory that was given back is written over.
    const memory = Buffer.from(piece);
    reader.push(memory, () => {
      seen.lent -= 1;
      memory.fill(0xff);
    });
  }
  return { ...seen, frames: Buffer.concat(seen.frames) };
}

test('an answer is read the same wherever it is cut in two', () => {
  for (let at = 0; at <= whole.length; at++) {
    const { begun, frames, lent, ends } = read([whole.subarray(0, at), whole.subarray(at)]);
    expect({ at, begun, lent, ends, same: frames.equals(messages) }).toEqual({
      ...{ at, begun: 1, lent: 0, same: true },
      ends: [trailers],
    });
  }
});

test('an answer is read the same byte by byte', () => {
  const { frames, ends } = read(Array.from(whole, (byte) => Buffer.from([byte])));
  expect(frames.equals(messages)).toBe(true);
  expect(ends).toEqual([trailers]);
});

test('a message that looks like trailers inside is a message', () => {
  const sly = grpcFrame(trailersFrame({ 'grpc-status': '0' }));
  const { frames, ends } = read([head, sly]);
  expect(frames.equals(sly)).toBe(true);
  expect(ends).toEqual([]);
});

test('a refusal has its status among the headers, and does not begin', () => {
  const { begun, ends } = read([Buffer.from('HTTP/1.1 200 OK\r\ngrpc-status: 5\r\ngrpc-message: gone\r\n\r\n')]);
  expect(begun).toBe(0);
  expect(ends).toEqual([expect.objectContaining({ 'grpc-status': '5', 'grpc-message': 'gone' })]);
});

describe.each([
  ['another status', [Buffer.from('HTTP/1.1 404 Not Found\r\n\r\n')], 'HTTP/1.1 404 Not Found'],
  ['another protocol', [Buffer.from('SSH-2.0-x\r\n\r\n')], 'SSH-2.0-x'],
  ['a head without an end', Array.from({ length: 9 }, () => Buffer.alloc(1_024, 'x')), 'over 8192 bytes'],
  ['trailers without an end', [head, Buffer.from([0x80, 0xff, 0xff, 0xff, 0xff])], 'over 65536 bytes'],
])('%s', (_what, pieces, message) => {
  test('is no answer', () => {
    expect(() => read(pieces)).toThrow(message);
  });
});
