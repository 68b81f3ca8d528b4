import { once } from 'node:events';
import { connect, createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ExecutionService, GetExecutionRequestSchema } from '../../gen/assay/v1/execution_pb.js';
import { createUnaryPath, serving } from '../../services/sessions/relay/unary-path.ts';
import type { CallRecord } from '../../services/sessions/rpc/call-record.ts';
import { grpcFrame } from '../../services/shared/grpc-frame.ts';

test('a call whose client has left while it waited for its turn is not made', async () => {
  const asked = Promise.withResolvers<void>();
  const turn = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<unknown>();
  const made: string[] = [];
  const record = { requestId: 'r', traceparent: undefined, about() {}, end: ended.resolve } as Partial<CallRecord>;
  const path = createUnaryPath({
    admission: { admit: async () => ({ caller: { project: 'p', keyId: 'k' }, release() {}, onRevoked() {} }) } as never,
    records: () => record as CallRecord,
    services: [
      serving(ExecutionService, {
        getExecution: ({ executionId }: { executionId: string }) => {
          made.push(executionId);
          return {};
        },
      } as never),
    ],
    bodies: { open: () => ({ limitBytes: 1_000, withinMs: 10_000, hold() {}, close() {} }) },
    callLimits: () => 60_000,
    shares: {
      waiting: 0,
      contended: false,
      run: (_project, work) => work(),
      turn() {
        asked.resolve();
        return turn.promise;
      },
    },
    shutdownSignal: new AbortController().signal,
  });
  const server = createServer().on('stream', (stream, headers) => path.serve(stream, headers));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  try {
    const stream = client.request({
      ':method': 'POST',
      ':path': '/assay.v1.ExecutionService/GetExecution',
      'content-type': 'application/grpc',
    });
    stream.on('error', () => {});
    stream.end(grpcFrame(toBinary(GetExecutionRequestSchema, create(GetExecutionRequestSchema, { executionId: 'e' }))));
    await asked.promise;
    stream.close(8);
    await ended.promise;
    turn.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(made).toEqual([]);
  } finally {
    client.destroy();
    server.close();
  }
});
