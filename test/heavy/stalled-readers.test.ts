import http2 from 'node:http2';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
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

/** The median time of a small command, in milliseconds. */
async function latency(session: Session, count: number): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const start = performance.now();
    await session.run(['true']);
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[Math.floor(count / 2)] as number;
}

test('twenty stalled readers of a gibibyte each cost little memory, slow nobody down, and every command ends', async () => {
  const quiet = await stack.client.sessions.create({});
  // Half a core, and one connection for all readers, is what the factor below holds for: with a whole core and a connection
  // each it came to 2.1 on two cores that others used as well.
  const loud = await stack.client.sessions.create({ limits: { cpus: 0.5 } });
  await latency(quiet, 300);
  const before = await latency(quiet, 300);
  const connection = http2.connect(stack.endpoint);
  const ids = Array.from({ length: readers }, (_, index) => `stalled-${index}`);
  for (const id of ids) await startStalled(connection, loud.id, id);
  const during = await latency(quiet, 300);
  for (const id of ids) {
    const result = await loud.attach(id, { stdoutOffset: 1_073_741_824 }).result();
    expect(result).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 1_073_741_824 });
  }
  const { worker, sessions } = stack.stack.pids;
  const peaks = [peakResidentMebibytes(worker), peakResidentMebibytes(sessions)];
  console.log(
    `command p50 ${before.toFixed(1)} ms alone, ${during.toFixed(1)} ms beside; peak RSS ${peaks.map(Math.round)} MiB`,
  );
  for (const peak of peaks) expect(peak).toBeLessThan(250);
  expect(during / before).toBeLessThan(2);
  connection.destroy();
  await Promise.all([quiet.close(), loud.close()]);
});
