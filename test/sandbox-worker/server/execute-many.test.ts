import { once } from 'node:events';
import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ExecuteManyRequestSchema } from '../../../gen/assay/internal/v1/worker_pb.js';
import type { Meter } from '../../../services/sandbox-worker/meter.ts';
import { serveExecuteMany } from '../../../services/sandbox-worker/server/execute-many.ts';
import { createGrpcFrameReader, grpcFrame } from '../../../services/shared/grpc-frame.ts';
import { createLog } from '../../../services/shared/log.ts';

test.each([
  ['long', 1_048_576, 16, 8],
  ['short', 8, 8_192, 6_144],
])('a stream whose %s requests wait for their turn is not read on and on', async (_which, length, requests, few) => {
  const waiting: (() => void)[] = [];
  const server = createServer({ maxSessionMemory: 256 });
  let served: ServerHttp2Stream | undefined;
  server.on('stream', (stream) => {
    served = stream;
    const reader = createGrpcFrameReader(4 * 1_048_576);
    const take = serveExecuteMany(stream, {
      accept() {
        throw new Error('no sandbox');
      },
      inTurn: (_session, work) => void waiting.push(work),
      meter: { openStreams: { Execute: 0, Attach: 0 } } as Meter,
      log: createLog('test', 'silent'),
    });
    stream.on('data', (chunk: Buffer) => {
      for (const message of reader.push(chunk)) take(message);
    });
    stream.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { maxSessionMemory: 256 });
  const stream = session.request({ ':method': 'POST', ':path': '/' });
  stream.resume();
  for (let call = 1; call <= requests; call++) {
    const request = { sessionId: 's', program: { case: 'command', value: 'x'.repeat(length) } } as const;
    stream.write(grpcFrame(toBinary(ExecuteManyRequestSchema, create(ExecuteManyRequestSchema, { call, request }))));
  }
  await expect.poll(() => served?.isPaused()).toBe(true);
  expect(waiting.length).toBeLessThan(few);
  let taken = 0;
  await expect
    .poll(() => {
      for (const work of waiting.splice(0)) {
        taken++;
        work();
      }
      return taken;
    })
    .toBe(requests);
  session.destroy();
  server.close();
});
