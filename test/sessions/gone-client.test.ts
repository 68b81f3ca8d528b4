import { once } from 'node:events';
import type { Socket } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ExecuteRequestSchema } from '../../gen/assay/v1/execution_pb.js';
import { grpcFrame } from '../../services/shared/grpc-frame.ts';
import { openHttp1, openHttp2, openRawCall } from './raw-call.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

const method = 'assay.v1.ExecutionService/Execute';
const dropsOfEach = 8;
const logged: string[] = [];
let service: RunningService;
let worker: WorkerDouble;
let sessionId: string;
let request: Buffer;

beforeAll(async () => {
  const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) });
  service = await runService({ log });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  worker.execute = async (_request, stream) => {
    const data = Buffer.alloc(65_536);
    let gone = false;
    void stream.left.then(() => {
      gone = true;
    });
    for (let at = 0; !gone; at += data.length) {
      await stream.event({ case: 'stdout', value: { offset: BigInt(at), data } } as never);
      await new Promise(setImmediate);
    }
  };
  const { sessions } = clientsOf(service.transport(adminKey));
  sessionId = (await sessions.createSession({})).session?.sessionId ?? '';
  const program = { case: 'command', value: 'yes' } as const;
  request = grpcFrame(toBinary(ExecuteRequestSchema, create(ExecuteRequestSchema, { sessionId, program })));
});
afterAll(() => service?.stop());

const countOf = async (counter: string): Promise<number> =>
  Number(
    (await service.metrics())
      .split('\n')
      .find((line) => line.startsWith(counter))
      ?.split(' ')
      .at(-1) ?? 0,
  );
const canceled = () => countOf(`assay_requests_total{method="${method}",code="canceled"}`);

/** Leaves in the middle of an answer, as a process does that is killed. */
async function overHttp1(leave: (socket: Socket) => void): Promise<void> {
  const { socket, closed } = await openHttp1(service.port);
  const head = [
    `POST /${method} HTTP/1.1`,
    'host: a',
    `authorization: Bearer ${adminKey}`,
    'content-type: application/connect+proto',
    `content-length: ${request.length}`,
  ];
  socket.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), request]));
  await once(socket, 'data');
  leave(socket);
  await closed;
}

async function overHttp2(protocol: 'connect' | 'grpc-web', leave: 'stream' | 'connection'): Promise<void> {
  const session = await openHttp2(service.port);
  const headers = protocol === 'connect' ? { 'content-type': 'application/connect+proto' } : {};
  const { stream, closed } = openRawCall(session, method, { key: adminKey, protocol, headers });
  stream.end(request);
  await once(stream, 'data');
  if (leave === 'stream') stream.close(8);
  else session.socket.destroy();
  await closed;
  session.destroy();
}

describe('a client that goes away in the middle of an answer is no failure of the server', () => {
  const rows: [string, () => Promise<void>][] = [
    ['over HTTP/1.1 with a reset', () => overHttp1((socket) => socket.resetAndDestroy())],
    ['over HTTP/1.1 with an end', () => overHttp1((socket) => socket.destroy())],
    ['over HTTP/2 with a reset of its Connect stream', () => overHttp2('connect', 'stream')],
    ['over HTTP/2 with its connection', () => overHttp2('connect', 'connection')],
    ['over gRPC-Web with its connection', () => overHttp2('grpc-web', 'connection')],
  ];
  test.each(rows)('%s', async (_title, drop) => {
    const before = await canceled();
    await Promise.all(Array.from({ length: dropsOfEach }, drop));
    await expect.poll(() => countOf(`assay_open_streams{method="${method}"}`)).toBe(0);
    expect((await canceled()) - before).toBe(dropsOfEach);
    expect(await countOf('assay_errors_total{reason="INTERNAL"}')).toBe(0);
    expect(logged).toEqual([]);
  });
});

test('a client that goes away before its call is answered is no failure of the server either', async () => {
  const asked = Promise.withResolvers<void>();
  worker.calls.getExecution = async (_request, { signal }) => {
    asked.resolve();
    await once(signal, 'abort');
    return {};
  };
  const { socket, closed } = await openHttp1(service.port);
  const body = JSON.stringify({ sessionId, executionId: 'e' });
  const head = [
    'POST /assay.v1.ExecutionService/GetExecution HTTP/1.1',
    'host: a',
    `authorization: Bearer ${adminKey}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  await asked.promise;
  socket.destroy();
  await closed;
  const ended = 'assay_requests_total{method="assay.v1.ExecutionService/GetExecution",code="canceled"}';
  await expect.poll(() => countOf(ended)).toBe(1);
  expect(await countOf('assay_errors_total{reason="INTERNAL"}')).toBe(0);
  expect(logged).toEqual([]);
});
