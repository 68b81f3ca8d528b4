import { fromBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { AttachResponseSchema } from '../../../gen/assay/v1/execution_pb.js';
import { outputHead } from '../../../services/sandbox-worker/execution/event-frame.ts';
import { createGrpcFrameReader } from '../../../services/shared/grpc-frame.ts';

describe('an output event encoded by hand', () => {
  const sizes = [1, 100, 127, 128, 16_383, 16_384, 65_536, 262_144];
  const offsets = [0, 1, 127, 128, 300_000, 2 ** 31, 2 ** 35 + 7, 2 ** 53 - 1];
  test.each(sizes.flatMap((size) => offsets.map((offset) => [size, offset] as const)))(
    'of %i bytes at offset %i is what protobuf decodes',
    (size, offset) => {
      const data = Buffer.alloc(size, 7);
      for (const stream of [1, 2] as const) {
        const frame = Buffer.concat([outputHead(stream, offset, size), data]);
        const [message, more] = createGrpcFrameReader(1_000_000).push(frame);
        if (message === undefined) throw new Error('expected a message');
        expect(more).toBeUndefined();
        const { event } = fromBinary(AttachResponseSchema, message).event ?? {};
        if (event?.case !== 'stdout' && event?.case !== 'stderr') throw new Error('expected output');
        expect(event.case).toBe(stream === 1 ? 'stdout' : 'stderr');
        expect(event.value.offset).toBe(BigInt(offset));
        expect(event.value.data.length).toBe(size);
      }
    },
  );
});
