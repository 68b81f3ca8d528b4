import { Readable } from 'node:stream';
import { setImmediate as letOthersRun } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { BuildSampleImageResponseSchema } from '../../../gen/assay/internal/v1/worker_pb.js';
import { createSampleBuilder, type SampleBuilderDeps } from '../../../services/sessions/sample/build-sample.ts';
import type { SampleFolder } from '../../../services/shared/sample/read-sample.ts';

const folder = { digests: { content: 'sha256:1' } } as SampleFolder;

/** A builder with workers that print this many lines as fast as they are read, and how many they have printed. */
function builderWith(workerIds: readonly string[], count: number) {
  const printed = new Map<string, number>();
  const openStream = async (workerId: string) => {
    async function* frames() {
      for (let line = 0; line < count; line += 1) {
        printed.set(workerId, line + 1);
        yield frameOf(`${line}`);
      }
      stream.emit('trailers', { 'grpc-status': '0' });
    }
    const stream = Object.assign(Readable.from(frames()), { close() {} });
    return stream;
  };
  const deps = {
    workers: { all: () => workerIds.map((id) => ({ record: { workerId: id, address: id }, reachable: true })) },
    client: { openStream },
    shelf: { provide: async () => {} },
  };
  return { build: createSampleBuilder(deps as unknown as SampleBuilderDeps), printed };
}

function frameOf(line: string): Buffer {
  const news = { case: 'progress', value: { line } } as const;
  const message = toBinary(BuildSampleImageResponseSchema, create(BuildSampleImageResponseSchema, { news }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

test('no more is taken from the workers than the caller takes', async () => {
  const { build, printed } = builderWith(['a', 'b'], 1_000);
  const taken = { a: 0, b: 0 };
  let ahead = 0;
  for await (const news of build(folder, 'alpha', new AbortController().signal)) {
    if (news.case !== 'progress') continue;
    const worker = news.value.workerId as 'a' | 'b';
    expect(news.value.line).toBe(`${taken[worker]}`);
    taken[worker] += 1;
    await letOthersRun();
    ahead = Math.max(ahead, (printed.get(worker) ?? 0) - taken[worker]);
  }
  expect(taken).toEqual({ a: 1_000, b: 1_000 });
  // What the streams themselves read ahead.
  expect(ahead).toBeLessThan(100);
});

test('a caller that leaves ends the reading of all workers', async () => {
  const { build, printed } = builderWith(['a', 'b', 'c'], 1_000);
  for await (const _ of build(folder, 'alpha', new AbortController().signal)) break;
  for (const lines of printed.values()) expect(lines).toBeLessThan(100);
});
