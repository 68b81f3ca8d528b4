import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { createConnection } from '../../../clients/typescript/connection.ts';
import { createEventStreams, type EventStreams } from '../../../clients/typescript/event-streams.ts';
import { ExecuteResponseSchema } from '../../../gen/assay/v1/execution_pb.js';
import { heartbeat, output } from './execution-script.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type Answer = (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void;

async function serve(answer: Answer): Promise<EventStreams> {
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    stream.resume();
    answer(stream, headers);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = createConnection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    apiKey: 'assay_id_secret',
  });
  cleanups.push(
    () => server.close(),
    () => connection.close(),
  );
  return createEventStreams(connection);
}

const grpc = { ':status': 200, 'content-type': 'application/grpc+proto' };

function framed(fields: ReturnType<typeof output>): Buffer {
  const message = toBinary(ExecuteResponseSchema, create(ExecuteResponseSchema, fields));
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function respond(stream: http2.ServerHttp2Stream, body: Buffer, trailers: http2.OutgoingHttpHeaders): void {
  stream.respond(grpc, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.end(body);
}

test('the call carries its path, its key and what gRPC asks for', async () => {
  let seen: http2.IncomingHttpHeaders = {};
  const streams = await serve((stream, headers) => {
    seen = headers;
    respond(stream, Buffer.alloc(0), { 'grpc-status': '0' });
  });
  expect(await streams.attach({}).next()).toBeUndefined();
  expect(seen).toMatchObject({
    ':method': 'POST',
    ':path': '/assay.v1.ExecutionService/Attach',
    'content-type': 'application/grpc+proto',
    te: 'trailers',
    authorization: 'Bearer assay_id_secret',
  });
});

test('what came before an error is read before the error', async () => {
  const streams = await serve((stream) => {
    respond(stream, framed(heartbeat()), { 'grpc-status': '5', 'grpc-message': 'no%20such%20%C3%A9' });
  });
  const stream = streams.attach({});
  expect(await stream.next()).toMatchObject([{ case: 'heartbeat' }]);
  await expect(stream.next()).rejects.toMatchObject({ code: 5, rawMessage: 'no such é' });
});

test('an answer that is no gRPC is not read as such', async () => {
  const streams = await serve((stream) => {
    stream.respond({ ':status': 502, 'content-type': 'text/html' });
    stream.end('<html>'.repeat(100));
  });
  await expect(streams.attach({}).next()).rejects.toMatchObject({ rawMessage: 'HTTP 502' });
});

test('every broken end of a call is told', async () => {
  const half = framed(output('stdout', 0, 'abc')).subarray(0, 9);
  // By a word of the message; what a dead connection is called depends on what node notices first.
  const ends: [Answer, string][] = [
    [(stream) => stream.close(http2.constants.NGHTTP2_NO_ERROR), 'unanswered'],
    [(stream) => stream.close(http2.constants.NGHTTP2_REFUSED_STREAM), 'REFUSED_STREAM'],
    [(stream) => stream.session?.destroy(), '['],
    [(stream) => respond(stream, half, { 'grpc-status': '0' }), 'inside a message'],
    [(stream) => respond(stream, framed(heartbeat()).fill(0xff, 5), { 'grpc-status': '0' }), 'parse binary'],
    [(stream) => respond(stream, Buffer.alloc(5, 0xff), { 'grpc-status': '0' }), 'flags 255'],
    [(stream) => respond(stream, Buffer.alloc(0), { other: '1' }), 'missing status'],
    [
      (stream) => {
        stream.respond(grpc);
        stream.close(http2.constants.NGHTTP2_CANCEL);
      },
      'missing status',
    ],
  ];
  for (const [answer, message] of ends) {
    const streams = await serve(answer);
    await expect(streams.attach({}).next()).rejects.toThrow(message);
  }
});

test('closing a stream cancels the call, also while it is being opened, and ends a waiting reader', async () => {
  const calls: http2.ServerHttp2Stream[] = [];
  const streams = await serve((stream) => {
    calls.push(stream);
    stream.respond(grpc);
    stream.write(framed(heartbeat()));
  });
  const stream = streams.attach({});
  await stream.next();
  const call = calls[0] as http2.ServerHttp2Stream;
  const closed = once(call, 'close');
  const waiting = stream.next();
  stream.close();
  await expect(waiting).rejects.toMatchObject({ rawMessage: 'the reader left' });
  await closed;
  expect(call.rstCode).toBe(http2.constants.NGHTTP2_CANCEL);
  const early = streams.attach({});
  early.close();
  await expect(early.next()).rejects.toMatchObject({ rawMessage: 'the reader left' });
});
