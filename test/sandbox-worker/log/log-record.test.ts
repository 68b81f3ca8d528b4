import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { sizeDelimitedDecodeStream } from '@bufbuild/protobuf/wire';
import { describe, expect, test } from 'vitest';
import { JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { decodeOutput, encodeOutput, encodeStarted } from '../../../services/sandbox-worker/log/log-record.ts';
import { createOutputExtents } from '../../../services/sandbox-worker/log/output-extents.ts';

async function decoded(bytes: Uint8Array) {
  const records = await Array.fromAsync(
    sizeDelimitedDecodeStream(
      JournalRecordSchema,
      (async function* () {
        yield bytes;
      })(),
    ),
  );
  expect(records).toHaveLength(1);
  return records[0];
}

const extents = [
  { number: 1n, stream: 1, from: 0, to: 1, timeMs: 0 },
  { number: 127n, stream: 2, from: 127, to: 128, timeMs: 1_700_000_000_000 },
  { number: 128n, stream: 1, from: 2 ** 31, to: 2 ** 35 + 7, timeMs: 1_800_000_000_123 },
  { number: 2n ** 53n - 1n, stream: 2, from: 2 ** 53 - 2, to: 2 ** 53 - 1, timeMs: 2 ** 53 - 1 },
] as const;

describe('a record that is encoded by hand', () => {
  test.each(extents)('of output is what protobuf decodes: $number, $stream, $from to $to', async (extent) => {
    const bytes = encodeOutput(extent);
    const record = await decoded(bytes);
    expect(record?.number).toBe(extent.number);
    expect(record?.record).toMatchObject({
      case: 'output',
      value: {
        stream: extent.stream,
        from: BigInt(extent.from),
        to: BigInt(extent.to),
        timeMs: BigInt(extent.timeMs),
      },
    });
    expect(decodeOutput(bytes.subarray(1))).toEqual(extent);
  });

  test('of a start is what protobuf decodes, and no output', async () => {
    const bytes = encodeStarted(300n, 1_800_000_000_123);
    const record = await decoded(bytes);
    expect(record?.number).toBe(300n);
    expect(record?.record).toMatchObject({ case: 'started', value: { timeMs: 1_800_000_000_123n } });
    expect(decodeOutput(bytes.subarray(1))).toBeUndefined();
    expect(decodeOutput(toBinary(JournalRecordSchema, fromBinary(JournalRecordSchema, bytes.subarray(1))))).toBe(
      undefined,
    );
  });
});

describe('output that waits for its record', () => {
  test('is one extent for as long as it is one stream of one execution', () => {
    const waiting = createOutputExtents(() => 7);
    waiting.add(1n, 1, 0, 10);
    waiting.add(1n, 1, 10, 30);
    waiting.add(1n, 2, 0, 5);
    waiting.add(1n, 1, 30, 31);
    const taken = waiting.take().map((bytes) => decodeOutput(bytes.subarray(1)));
    expect(taken.map((extent) => [extent?.stream, extent?.from, extent?.to])).toEqual([
      [1, 0, 30],
      [2, 0, 5],
      [1, 30, 31],
    ]);
    expect(waiting.take()).toEqual([]);
  });

  test('becomes coarser instead of more when streams take turns very fast, and no byte is lost', () => {
    const waiting = createOutputExtents(() => 7);
    for (let at = 0; at < 10_000; at++) {
      waiting.add(1n, 1, at, at + 1);
      waiting.add(1n, 2, at, at + 1);
    }
    const taken = waiting.take().map((bytes) => decodeOutput(bytes.subarray(1)));
    expect(taken.length).toBeLessThan(100);
    for (const stream of [1, 2]) {
      let next = 0;
      for (const extent of taken) {
        if (extent?.stream !== stream) continue;
        expect(extent.from).toBe(next);
        next = extent.to;
      }
      expect(next).toBe(10_000);
    }
  });
});
