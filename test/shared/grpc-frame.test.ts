import { expect, test } from 'vitest';
import { createGrpcFrameReader, grpcFrame } from '../../services/shared/grpc-frame.ts';

const limitBytes = 4 * 1_048_576;
const messages = [Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(70_000, 'x'), Buffer.from('last')];

test.each([1, 2, 5, 7, 4_096, 100_000])('messages that come in pieces of %i bytes are the same', (size) => {
  const frames = createGrpcFrameReader(limitBytes);
  const body = Buffer.concat(messages.map(grpcFrame));
  const found: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) found.push(...frames.push(Buffer.from(body.subarray(at, at + size))));
  // Only now: what was given away first must have stayed as it was.
  expect(Buffer.concat(found).equals(Buffer.concat(messages))).toBe(true);
  expect(found.map(({ length }) => length)).toEqual(messages.map(({ length }) => length));
  expect(frames.pending).toBe(0);
});

test('a large message in pieces of a byte is not copied again for each of them', () => {
  const frames = createGrpcFrameReader(limitBytes);
  const body = grpcFrame(Buffer.alloc(limitBytes, 'x'));
  let found: Buffer[] = [];
  // Copied for each piece this would be eight terabytes: hours, where it takes a moment.
  const hung = performance.now() + 60_000;
  for (let at = 0; at < body.length && performance.now() < hung; at++) found = frames.push(body.subarray(at, at + 1));
  expect(found.map(({ length }) => length)).toEqual([limitBytes]);
});

test('what is not whole is told as pending', () => {
  const frames = createGrpcFrameReader(limitBytes);
  expect(frames.push(grpcFrame(Buffer.from('ab')).subarray(0, 6))).toEqual([]);
  expect(frames.pending).toBe(6);
});

test('a message over the limit and a compressed one are refused', () => {
  expect(() => createGrpcFrameReader(3).push(grpcFrame(Buffer.from('four')))).toThrow(
    'a message of 4 bytes, over the limit of 3',
  );
  expect(() => createGrpcFrameReader(3).push(Buffer.from([1, 0, 0, 0, 0]))).toThrow('compressed');
});
