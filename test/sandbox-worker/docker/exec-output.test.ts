import { expect, test } from 'vitest';
import { createDemuxer } from '../../../services/sandbox-worker/docker/exec-output.ts';

function frame(mark: number, text: string): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt8(mark, 0);
  header.writeUInt32BE(text.length, 4);
  return Buffer.concat([header, Buffer.from(text)]);
}

function read(...chunks: Buffer[]) {
  const out: string[] = [];
  const err: string[] = [];
  const take = createDemuxer({
    stdout: (data) => void out.push(data.toString()),
    stderr: (data) => void err.push(data.toString()),
  });
  for (const chunk of chunks) take(chunk);
  return { stdout: out.join(''), stderr: err.join('') };
}

test('thousands of frames in one chunk are read, as a program writes them that writes byte by byte', () => {
  const many = Buffer.concat(
    Array.from({ length: 50_000 }, (_, index) => frame(1 + (index % 2), index % 2 ? 'e' : 'o')),
  );
  expect(read(many)).toEqual({ stdout: 'o'.repeat(25_000), stderr: 'e'.repeat(25_000) });
});

test('frames are read wherever their chunks are cut', () => {
  const whole = Buffer.concat([frame(1, 'one'), frame(2, ''), frame(2, 'two'), frame(1, 'three')]);
  for (let size = 1; size <= whole.length; size += 1) {
    const count = Math.ceil(whole.length / size);
    const chunks = Array.from({ length: count }, (_, index) => whole.subarray(index * size, (index + 1) * size));
    expect(read(...chunks)).toEqual({ stdout: 'onethree', stderr: 'two' });
  }
});
