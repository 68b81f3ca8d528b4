import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { createConnection } from '../../../clients/typescript/connection.ts';
import { createEventStreams, type EventStreams } from '../../../clients/typescript/event-streams.ts';
import {
  type ExecuteManyRequest,
  ExecuteManyRequestSchema,
  ExecuteManyResponseSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { createGrpcFrameReader, grpcFrame } from '../../../services/shared/grpc-frame.ts';
import { toConnectError, toStatus } from '../../../services/shared/rpc-error.ts';
import { heartbeat, output } from './execution-script.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type Response = MessageInitShape<typeof ExecuteManyResponseSchema>;

/** One ExecuteMany as its server has it. */
interface Shared {
  readonly stream: http2.ServerHttp2Stream;
  say(response: Response): void;
}

/** A server that answers each message of an ExecuteMany; other calls are refused as unknown unless `other` answers them. */
async function serve(
  answer: (shared: Shared, request: ExecuteManyRequest) => void,
  other?: (stream: http2.ServerHttp2Stream, path: string) => void,
): Promise<{ streams: EventStreams; opened: http2.ServerHttp2Stream[] }> {
  const opened: http2.ServerHttp2Stream[] = [];
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    const path = headers[':path'] ?? '';
    if (other !== undefined) return other(stream, path);
    opened.push(stream);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
    const say = (response: Response) =>
      stream.write(grpcFrame(toBinary(ExecuteManyResponseSchema, create(ExecuteManyResponseSchema, response))));
    const frames = createGrpcFrameReader(1_048_576);
    stream.on('data', (chunk: Buffer) => {
      for (const message of frames.push(chunk)) answer({ stream, say }, fromBinary(ExecuteManyRequestSchema, message));
    });
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
  return { streams: createEventStreams(connection), opened };
}

const eventOf = (fields: ReturnType<typeof output>) => fields.event as NonNullable<Response['events']>[number];
const noFailure = new Uint8Array();

test('calls side by side share one stream, and each reads what is its own', async () => {
  const { streams, opened } = await serve(({ say }, { call, request }) => {
    const text = `for ${request?.sessionId}`;
    say({ call, events: [eventOf(heartbeat()), eventOf(output('stdout', 0, text))], end: { status: noFailure } });
  });
  const read = async (sessionId: string) => {
    const stream = streams.execute({ sessionId });
    const events = await stream.next();
    expect(await stream.next()).toBeUndefined();
    expect(stream.more).toBe(false);
    return events?.map((event) => (event.case === 'stdout' ? Buffer.from(event.value.data).toString() : event.case));
  };
  expect(await Promise.all(['a', 'b', 'c'].map(read))).toEqual(['a', 'b', 'c'].map((id) => ['heartbeat', `for ${id}`]));
  expect(opened).toHaveLength(1);
});

test('a call that fails tells its own reason, after what it said before, and the others go on', async () => {
  const error = toConnectError(new DomainError('SESSION_NOT_FOUND', 'there is no session é'), () => {});
  const { streams } = await serve(({ say }, { call, request }) => {
    if (request?.sessionId === 'bad') say({ call, events: [eventOf(heartbeat())], end: { status: toStatus(error) } });
    else say({ call, end: { status: noFailure } });
  });
  const bad = streams.execute({ sessionId: 'bad' });
  const good = streams.execute({ sessionId: 'good' });
  expect(await bad.next()).toMatchObject([{ case: 'heartbeat' }]);
  await expect(bad.next()).rejects.toMatchObject({ code: 5, rawMessage: 'there is no session é' });
  expect(await good.next()).toBeUndefined();
});

test('a call with more to say ends and says so', async () => {
  const { streams } = await serve(({ say }, { call }) => say({ call, end: { status: noFailure, more: true } }));
  const stream = streams.execute({});
  expect(await stream.next()).toBeUndefined();
  expect(stream.more).toBe(true);
});

test('a reader that leaves is told to the server, and what still comes for it is dropped', async () => {
  const heard: ExecuteManyRequest[] = [];
  const left = Promise.withResolvers<void>();
  const { streams } = await serve(({ say }, message) => {
    heard.push(message);
    if (message.request !== undefined) return say({ call: message.call, events: [eventOf(heartbeat())] });
    say({ call: message.call, events: [eventOf(heartbeat())], end: { status: noFailure } });
    left.resolve();
  });
  const stream = streams.execute({});
  await stream.next();
  const waiting = stream.next();
  stream.close();
  await expect(waiting).rejects.toMatchObject({ rawMessage: 'the reader left' });
  await left.promise;
  expect(heard.map(({ call, request }) => [call, request !== undefined])).toEqual([
    [1, true],
    [1, false],
  ]);
  expect(await streams.execute({}).next()).toMatchObject([{ case: 'heartbeat' }]);
});

test('every broken end of the stream ends all of its calls, and the next call opens another', async () => {
  const ends: [(shared: Shared) => void, string][] = [
    [({ stream }) => stream.close(http2.constants.NGHTTP2_REFUSED_STREAM), 'REFUSED_STREAM'],
    [({ stream }) => stream.session?.destroy(), '['],
    [({ stream }) => stream.end(), 'missing status'],
    [({ stream }) => stream.write(Buffer.alloc(5, 0xff)), 'flags 255'],
    [({ stream }) => stream.write(grpcFrame(Buffer.alloc(9, 0xff))), 'parse binary'],
    [
      ({ stream }) => {
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '14', 'grpc-message': 'stopping' }));
        stream.end();
      },
      'stopping',
    ],
    [
      ({ stream }) => {
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end();
      },
      'ended the stream',
    ],
  ];
  for (const [end, message] of ends) {
    let first = true;
    const { streams } = await serve((shared, { call, request }) => {
      if (request?.sessionId === 'waits') return;
      if (!first) return shared.say({ call, end: { status: noFailure } });
      first = false;
      end(shared);
    });
    const both = [streams.execute({ sessionId: 'waits' }), streams.execute({})].map((stream) => stream.next());
    const failures = (await Promise.allSettled(both)).map((ended) => String((ended as PromiseRejectedResult).reason));
    for (const failure of failures) expect(failure).toContain(message);
    expect(await streams.execute({}).next()).toBeUndefined();
  }
});

test('a server that does not know the call is asked for a stream each, from the first command on', async () => {
  const paths: string[] = [];
  const refuse = (stream: http2.ServerHttp2Stream, path: string) => {
    paths.push(path.split('/')[2] ?? '');
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc+proto', 'grpc-status': '12' },
      { endStream: true },
    );
  };
  const { streams } = await serve(() => {}, refuse);
  const first = streams.execute({});
  expect(await first.next()).toBeUndefined();
  expect(first.more).toBe(true);
  await expect(streams.execute({}).next()).rejects.toMatchObject({ code: 12 });
  expect(paths).toEqual(['ExecuteMany', 'Execute']);
});

test('a long request has a stream of its own, so that one over the limit of the server breaks no other', async () => {
  const paths: string[] = [];
  const { streams } = await serve(
    () => {},
    (stream, path) => {
      paths.push(path.split('/')[2] ?? '');
      stream.resume();
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc+proto', 'grpc-status': '8' },
        { endStream: true },
      );
    },
  );
  const program = { case: 'command', value: 'x'.repeat(300_000) } as const;
  await expect(streams.execute({ program }).next()).rejects.toMatchObject({ code: 8 });
  expect(paths).toEqual(['Execute']);
});
