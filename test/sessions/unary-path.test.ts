import { type ClientHttp2Session, connect } from 'node:http2';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { GetExecutionRequestSchema, GetExecutionResponseSchema } from '../../gen/assay/v1/execution_pb.js';
import { errorOfStatus } from '../../services/sessions/worker/worker-status.ts';
import { DomainError } from '../../services/shared/domain-error.ts';
import { createGrpcFrameReader, grpcFrame } from '../../services/shared/grpc-frame.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let connection: ClientHttp2Session;
let sessionId: string;
let answering: WorkerDouble['calls']['getExecution'];

beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  answering = worker.calls.getExecution;
  connection = connect(`http://127.0.0.1:${service.port}`);
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
});
afterAll(async () => {
  connection?.destroy();
  await service?.stop();
});

/** GetExecution with a body as it is given, and what came back. */
function call(body: Buffer, headers: Record<string, string> = {}) {
  const stream = connection.request({
    ':method': 'POST',
    ':path': '/assay.v1.ExecutionService/GetExecution',
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${adminKey}`,
    ...headers,
  });
  stream.on('error', () => {});
  stream.end(body);
  const answer = new Promise<{ body: Buffer; headers: Record<string, string>; error: unknown }>((resolve) => {
    const found: Record<string, string> = {};
    const chunks: Buffer[] = [];
    stream.on('response', (given) => Object.assign(found, given));
    stream.on('trailers', (given) => Object.assign(found, given));
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('close', () =>
      resolve({ body: Buffer.concat(chunks), headers: found, error: found['grpc-status'] && errorOfStatus(found) }),
    );
  });
  return { stream, answer };
}

const request = (executionId = 'exe-1'): Buffer =>
  grpcFrame(toBinary(GetExecutionRequestSchema, create(GetExecutionRequestSchema, { sessionId, executionId })));

test('a call is answered with one message, a status and its request id', async () => {
  const { body, headers, error } = await call(request(), { 'x-request-id': 'mine' }).answer;
  expect(error).toBeUndefined();
  expect(headers['x-request-id']).toBe('mine');
  const messages = createGrpcFrameReader(1_000).push(body);
  expect(messages.map((bytes) => fromBinary(GetExecutionResponseSchema, bytes).execution?.executionId)).toEqual([
    'exe-1',
  ]);
});

describe.each([
  ['nothing', () => Buffer.alloc(0), 'UNREADABLE_REQUEST'],
  ['half a message', () => request().subarray(0, 9), 'UNREADABLE_REQUEST'],
  ['two messages', () => Buffer.concat([request(), request()]), 'UNREADABLE_REQUEST'],
  ['what is no message', () => grpcFrame(Buffer.from([0xff])), 'UNREADABLE_REQUEST'],
  ['a compressed message', () => Buffer.concat([Buffer.from([1]), request().subarray(1)]), 'UNREADABLE_REQUEST'],
  ['a message of a gibibyte, as it says', () => Buffer.from([0, 0x40, 0, 0, 0]), 'LIMIT_EXCEEDED'],
])('a call with %s', (_what, body, reason) => {
  test('is refused with a reason', async () => {
    const { error } = await call(body()).answer;
    expect(error).toBeInstanceOf(DomainError);
    expect(error).toMatchObject({ reason, code: Code.InvalidArgument });
  });
});

test('a call without a key is refused before its body was read', async () => {
  const { stream, answer } = call(request().subarray(0, 3), { authorization: '' });
  expect((await answer).headers['grpc-status']).toBe(String(Code.Unauthenticated));
  expect(stream.destroyed).toBe(true);
});

test("a worker's error arrives with its reason", async () => {
  worker.calls.getExecution = () => {
    throw new DomainError('SANDBOX_LOST', 'gone: 50% of “ünicode”');
  };
  const { error } = await call(request()).answer;
  worker.calls.getExecution = answering as NonNullable<typeof answering>;
  expect(error).toMatchObject({ reason: 'SANDBOX_LOST', message: 'gone: 50% of “ünicode”' });
});

describe('a call that waits for its worker', () => {
  /** A worker that answers when it is let, and says when it was asked and when nobody waits any more. */
  function holdUp() {
    const asked = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    worker.calls.getExecution = (_request, context) => {
      context.signal.addEventListener('abort', () => left.resolve());
      asked.resolve();
      return new Promise(() => {});
    };
    return { asked: asked.promise, left: left.promise };
  }

  test('ends at its deadline, and lets go of the worker', async () => {
    const { left } = holdUp();
    const { error } = await call(request(), { 'grpc-timeout': '300m' }).answer;
    expect(error).toMatchObject({ reason: 'DEADLINE_EXCEEDED' });
    await left;
  });

  test('lets go of the worker when its client goes away', async () => {
    const { asked, left } = holdUp();
    const { stream } = call(request());
    await asked;
    stream.close(8);
    await left;
  });

  test('ends with SHUTTING_DOWN when the server stops', async () => {
    const { asked } = holdUp();
    const { answer } = call(request());
    await asked;
    const stopped = service.stopService();
    expect((await answer).error).toMatchObject({ reason: 'SHUTTING_DOWN' });
    await stopped;
  });
});
