import { randomBytes, randomInt } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { createFrameReader } from '../../../clients/typescript/frame-reader.ts';
import { decodeEvent, decodeOutputInParts, type ReceivedEvent } from '../../../clients/typescript/received-event.ts';
import { ExecuteResponseSchema } from '../../../gen/assay/v1/execution_pb.js';
import { finished, gap, heartbeat, output, started } from './execution-script.ts';

function encode(fields: ReturnType<typeof output>): Buffer {
  return Buffer.from(toBinary(ExecuteResponseSchema, create(ExecuteResponseSchema, fields)));
}

function frame(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** What the generated code finds, with offsets as numbers. */
function expected(message: Uint8Array) {
  const event = fromBinary(ExecuteResponseSchema, message).event?.event ?? { case: undefined };
  if (event.case !== 'stdout' && event.case !== 'stderr') return event;
  return { case: event.case, value: { offset: Number(event.value.offset), data: Uint8Array.from(event.value.data) } };
}

function found(message: Buffer, owned = true) {
  const event = decodeEvent(message, owned);
  if (event.case !== 'stdout' && event.case !== 'stderr') return event;
  return { case: event.case, value: { offset: Number(event.value.offset), data: event.value.data } };
}

const events = [
  started(),
  heartbeat(),
  gap('stderr', 1, 2 ** 40),
  finished(3, 4, 5),
  ...[0, 1, 127, 128, 2 ** 32, 2 ** 53 - 1].flatMap((offset) =>
    [0, 1, 127, 128, 16_384, 300_000].map((size) => output(size % 2 ? 'stderr' : 'stdout', offset, randomBytes(size))),
  ),
];

test('every event is decoded as the generated code decodes it', () => {
  for (const event of events) expect(isDeepStrictEqual(found(encode(event)), expected(encode(event)))).toBe(true);
});

test('an event that is written in an unusual way is decoded all the same', () => {
  const output = Buffer.from([0x12, 1, 65, 0x08, 7]);
  const event = Buffer.concat([Buffer.from([0x12, output.length]), output]);
  for (const tail of [[], [0x78, 1]]) {
    const inner = Buffer.concat([event, Buffer.from(tail)]);
    const message = Buffer.concat([Buffer.from([0x0a, 0x80 | inner.length, 0]), inner]);
    expect(found(message)).toEqual({ case: 'stdout', value: { offset: 7, data: Uint8Array.of(65) } });
  }
  expect(decodeEvent(Buffer.alloc(0), true)).toEqual({ case: undefined });
});

test('bytes that are no event are refused, never read past', () => {
  const whole = encode(output('stdout', 300, randomBytes(200)));
  for (let length = 1; length < whole.length; length++) {
    expect(() => decodeEvent(whole.subarray(0, length), true)).toThrow(
      expect.objectContaining({ code: Code.Internal }),
    );
  }
  const endless = Buffer.concat([Buffer.from([0x0a, 14, 0x12, 12, 0x08]), Buffer.alloc(11, 0x80)]);
  expect(() => decodeEvent(endless, true)).toThrow();
});

test('output that lay in shared memory has memory of its own', () => {
  const message = encode(output('stdout', 0, 'abc'));
  const event = decodeEvent(message, false);
  message.fill(0);
  expect(event).toMatchObject({ case: 'stdout', value: { data: new Uint8Array(Buffer.from('abc')) } });
});

test('messages are found whole however the body is cut', () => {
  const messages = events.map(encode);
  const body = Buffer.concat(messages.map(frame));
  for (const most of [1, 7, 20_000, 400_000]) {
    const seen: Buffer[] = [];
    const reader = createFrameReader(400_000, (message) => seen.push(Buffer.from(message)));
    const part = most === 1 ? body.subarray(0, 50_000) : body;
    for (let at = 0; at < part.length; ) {
      const size = 1 + randomInt(most);
      reader.push(part.subarray(at, at + size));
      at += size;
    }
    if (part === body) expect(() => reader.finish()).not.toThrow();
    expect(seen.length).toBeGreaterThan(5);
    expect(Buffer.concat(seen).equals(Buffer.concat(messages.slice(0, seen.length)))).toBe(true);
  }
});

test('output is taken in parts as it comes, each with its offset, and nothing else is', () => {
  const sent = [started(), output('stdout', 2 ** 40, randomBytes(300_000)), heartbeat(), ...events.slice(0, 28)];
  const body = Buffer.concat(sent.map(encode).map(frame));
  for (const most of [30, 5_000, 20_000, 400_000]) {
    const seen: ReceivedEvent[] = [];
    const reader = createFrameReader(
      400_000,
      (message, owned) => seen.push(decodeEvent(message, owned)),
      (size, beginning) => decodeOutputInParts(size, beginning, (part) => seen.push(part)),
    );
    for (let at = 0; at < body.length; ) {
      const size = 1 + randomInt(most);
      // A buffer of its own that is overwritten later, unless it is large: then the client keeps what it was given.
      const piece = Buffer.from(body.subarray(at, at + size));
      reader.push(piece);
      if (piece.length < 8_192) piece.fill(0);
      at += size;
    }
    expect(() => reader.finish()).not.toThrow();
    expect(isDeepStrictEqual(joined(seen), joined(sent.map((event) => decodeEvent(encode(event), true))))).toBe(true);
    if (most < 300_000) expect(seen.length).toBeGreaterThan(sent.length);
  }
});

/** Parts of one output put together; events that are no output as they are. */
function joined(parts: readonly ReceivedEvent[]): unknown[] {
  const whole: { case: string | undefined; offset?: number; data?: Buffer; value?: unknown }[] = [];
  for (const part of parts) {
    if (part.case !== 'stdout' && part.case !== 'stderr') {
      whole.push({ case: part.case, value: part.value });
      continue;
    }
    const last = whole.at(-1);
    const offset = Number(part.value.offset);
    const goesOn = last?.case === part.case && (last.offset ?? 0) + (last.data?.length ?? 0) === offset;
    if (last !== undefined && goesOn) last.data = Buffer.concat([last.data ?? Buffer.alloc(0), part.value.data]);
    else whole.push({ case: part.case, offset, data: Buffer.from(part.value.data) });
  }
  return whole;
}

test('a message over the limit and a compressed one are refused by their prefix', () => {
  const reader = () => createFrameReader(100, () => undefined);
  expect(() => reader().push(Buffer.from([0, 0, 0, 0, 101]))).toThrow(/101 bytes is over the limit of 100/);
  expect(() => reader().push(Buffer.from([1, 0, 0, 0, 1, 0]))).toThrow(/uncompressed/);
});
