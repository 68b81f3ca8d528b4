import http2 from 'node:http2';
import { setTimeout as delay } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { ExecuteRequestSchema } from '../../gen/assay/v1/execution_pb.js';
import { grpcFrame } from '../../services/shared/grpc-frame.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { peakResidentMebibytes } from './resident-memory.ts';

const readers = 20;
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Starts a command over gRPC and never reads more than the first bytes of what it prints. */
function startStalled(connection: http2.ClientHttp2Session, sessionId: string, executionId: string): Promise<void> {
  const stream = connection.request({
    ':method': 'POST',
    ':path': '/assay.v1.ExecutionService/Execute',
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${stack.key}`,
  });
  const argv = { args: ['head', '-c', '1073741824', '/dev/zero'] };
  const request = create(ExecuteRequestSchema, { sessionId, executionId, program: { case: 'argv', value: argv } });
  stream.end(grpcFrame(toBinary(ExecuteRequestSchema, request)));
  stream.on('error', () => {});
  return new Promise((resolve) => stream.once('readable', () => resolve()));
}

/** The median time of a small command, in milliseconds, of those that are run as long as more are wanted. */
async function latency(session: Session, more: (done: number) => boolean): Promise<number> {
  const times: number[] = [];
  while (more(times.length)) {
    const start = performance.now();
    await session.run(['true']);
    times.push(performance.now() - start);
    // A client, not a load: a worker remembers every command of a session.
    await delay(20);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] as number;
}

test('twenty stalled readers of a gibibyte each cost little memory, slow nobody down, and every command ends', async () => {
  const quiet = await stack.client.sessions.create({});
  const loud = await stack.client.sessions.create({});
  await latency(quiet, (done) => done < 300);
  const before = await latency(quiet, (done) => done < 300);
  const ids = Array.from({ length: readers }, (_, index) => `stalled-${index}`);
  const connections = ids.map(() => http2.connect(stack.endpoint));
  for (const [index, connection] of connections.entries())
    await startStalled(connection, loud.id, ids[index] as string);
  let running = readers;
  // Nobody attaches to them meanwhile: that would be a reader.
  const ends = ids.map(async (id) => {
    const ended = async () => expect((await loud.execution(id)).state).toBe('FINISHED');
    await vi.waitFor(ended, { timeout: 600_000, interval: 1_000 });
    const result = await loud.attach(id, { stdoutOffset: 1_073_741_824 }).result();
    expect(result).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 1_073_741_824 });
    running -= 1;
  });
  // To the end of the last: at first they stand still, because they are waited for.
  const during = await latency(quiet, () => running > 0);
  await Promise.all(ends);
  const { worker, sessions } = stack.stack.pids;
  const peaks = [peakResidentMebibytes(worker), peakResidentMebibytes(sessions)];
  console.log(
    `command p50 ${before.toFixed(1)} ms alone, ${during.toFixed(1)} ms beside; peak RSS ${peaks.map(Math.round)} MiB`,
  );
  for (const peak of peaks) expect(peak).toBeLessThan(250);
  expect(during / before).toBeLessThan(2);
  for (const connection of connections) connection.destroy();
  await Promise.all([quiet.close(), loud.close()]);
});
