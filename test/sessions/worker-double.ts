import { once } from 'node:events';
import { createServer as createLineServer } from 'node:http';
import {
  createServer,
  Http2ServerRequest,
  Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import type { WorkerRecord } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionRecordSchema, WorkerRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import {
  ExecuteManyRequestSchema,
  ExecuteManyResponseSchema,
  WorkerService,
} from '../../gen/assay/internal/v1/worker_pb.js';
import {
  type AttachRequest,
  AttachRequestSchema,
  type ExecuteRequest,
  ExecuteRequestSchema,
  ExecuteResponseSchema,
  type ExecutionEvent,
  ExecutionEventSchema,
  ExecutionService,
} from '../../gen/assay/v1/execution_pb.js';
import { ShellService } from '../../gen/assay/v1/shell_pb.js';
import { type Carrier, carryOnLine, carryOnStream, refuseLine } from '../../services/sandbox-worker/server/carrier.ts';
import { createConnectionRouter } from '../../services/shared/connection-router.ts';
import { createGrpcFrameReader, grpcFrame } from '../../services/shared/grpc-frame.ts';
import { toConnectError, toTrailers } from '../../services/shared/rpc-error.ts';
import { advance, type SessionEvent } from '../../services/shared/session-state.ts';
import type { SessionStore, Stored } from '../../services/shared/store/session-store.ts';
import type { WorkerStore } from '../../services/shared/store/worker-store.ts';

/** The worker's end of one stream. */
export interface DoubleStream {
  /** Resolves when the reader has left. */
  readonly left: Promise<void>;
  /** Resolves when the stream takes more. */
  event(event: ExecutionEvent['event']): Promise<void>;
  end(): void;
  /** Of a call that shares its stream: what is left has to be read with Attach. */
  handOver(): void;
  fail(error: unknown): void;
}

/** A worker that has no sandboxes: it speaks the worker's protocol and keeps the records as a worker does. */
export interface WorkerDouble {
  readonly workerId: string;
  readonly address: string;
  /** What Execute and Attach do. A test may replace them. */
  execute: (request: ExecuteRequest, stream: DoubleStream) => Promise<void>;
  attach: (request: AttachRequest, stream: DoubleStream) => Promise<void>;
  /** The unary calls. A test may replace them. */
  readonly calls: Partial<
    ServiceImpl<typeof WorkerService> & ServiceImpl<typeof ExecutionService> & ServiceImpl<typeof ShellService>
  >;
  /** Names of the calls that came, in order. */
  readonly heard: string[];
  advance(project: string, sessionId: string, event: SessionEvent): Promise<void>;
  /** Writes its registration once. */
  register(change?: Partial<Registration>): Promise<void>;
  /** Breaks every connection, as a crash would. */
  breakConnections(): void;
  stop(): Promise<void>;
}

interface Registration {
  readonly capacity: number;
  readonly sessions: number;
  readonly draining: boolean;
  readonly capabilities: string[];
  /** Its own unless told. */
  readonly address?: string;
  readonly engineProblem?: string;
}

export interface WorkerDoubleOptions {
  readonly workerId: string;
  readonly token: string;
  readonly sessions: SessionStore;
  readonly workers: WorkerStore;
  readonly heartbeatMs?: number;
}

export async function startWorkerDouble(options: WorkerDoubleOptions): Promise<WorkerDouble> {
  const { workerId, sessions, workers } = options;
  const heard: string[] = [];
  const connections = new Set<Socket>();
  let stored: Stored<WorkerRecord> | undefined;
  let registration: Registration = {
    capacity: 100,
    sessions: 0,
    draining: false,
    capabilities: ['verification', 'fork'],
  };

  const change = async (project: string, sessionId: string, event: SessionEvent): Promise<void> => {
    await sessions.update(project, sessionId, (record) => {
      const next = record.session === undefined ? undefined : advance(record.session, event);
      return next === undefined ? undefined : { ...create(SessionRecordSchema, record), session: next };
    });
  };
  const calls: WorkerDouble['calls'] = {
    async createSandbox({ project, sessionId }) {
      await change(project, sessionId, { type: 'ready' });
      return {};
    },
    async closeSandbox({ project, sessionId }) {
      await change(project, sessionId, { type: 'closed', atMs: Date.now() });
      return {};
    },
    async pauseSandbox({ project, sessionId }) {
      await change(project, sessionId, { type: 'paused' });
      return {};
    },
    async resumeSandbox({ project, sessionId }) {
      await change(project, sessionId, { type: 'resumed' });
      return {};
    },
    refreshSandbox: () => ({}),
    getExecution: ({ executionId }) => ({ execution: { executionId } }),
    listExecutions: ({ pageToken }) => ({
      executions: [{ executionId: `after-${pageToken}` }],
      nextPageToken: pageToken === '' ? '1' : '',
    }),
    writeInput: ({ offset, data }) => ({ nextOffset: offset + BigInt(data.length) }),
    closeInput: () => ({ inputBytes: 7n }),
    signalExecution: () => ({}),
    cancelExecution: () => ({}),
  };
  const double = {
    execute: greet,
    attach: (_request: AttachRequest, stream: DoubleStream) => hello('attached', stream),
  };
  const adapter = connectNodeAdapter({
    routes: (router) => {
      for (const method of [WorkerService, ExecutionService, ShellService].flatMap(({ methods }) => methods)) {
        if (method.methodKind !== 'unary') continue;
        router.rpc(method, ((request: never, context: never) => {
          heard.push(method.name);
          const call = calls[method.localName as keyof typeof calls] as (request: never, context: never) => unknown;
          return call(request, context);
        }) as never);
      }
    },
    interceptors: [
      (next) => (request) =>
        next(request).catch((error: unknown) => {
          throw toConnectError(error, () => {});
        }),
    ],
    acceptCompression: [],
  });
  const http2 = createServer({ settings: { initialWindowSize: 1_048_576 } });
  http2.on('session', (session: ServerHttp2Session) => session.on('error', () => {}));
  http2.on('stream', (stream, headers, _flags, raw) => {
    stream.on('error', () => {});
    if (headers.authorization !== `Bearer ${options.token}`) {
      stream.respond(
        { ':status': 200, 'content-type': 'application/grpc+proto', 'grpc-status': '16' },
        { endStream: true },
      );
      return;
    }
    const path = headers[':path'] ?? '';
    if (path.endsWith('/Execute')) {
      heard.push('Execute');
      serve(stream, ExecuteRequestSchema, onStream(stream), (request, events) => double.execute(request, events));
    } else if (path.endsWith('/ExecuteMany')) {
      serveShared(stream, (request, events) => {
        heard.push('Execute');
        return double.execute(request, events);
      });
    } else if (path.endsWith('/Attach')) {
      heard.push('Attach');
      serve(stream, AttachRequestSchema, onStream(stream), attached);
    } else {
      adapter(
        new Http2ServerRequest(stream, headers, {}, raw as unknown as readonly string[]),
        new Http2ServerResponse(stream),
      );
    }
  });
  const attached = (request: AttachRequest, events: DoubleStream): Promise<void> => double.attach(request, events);
  const lines = createLineServer((request, response) => {
    response.on('error', () => {});
    if (request.headers.authorization !== `Bearer ${options.token}`) {
      refuseLine(response, { 'grpc-status': '16' });
      return;
    }
    heard.push('Attach');
    const events = doubleStream(
      () => carryOnLine(response),
      (trailers) => refuseLine(response, trailers),
      new Promise((resolve) => response.once('close', () => resolve())),
    );
    serve(request, AttachRequestSchema, events, attached);
  });
  const server = createConnectionRouter(lines, http2, 1_000);
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  /** One after the other: of two at once, the heartbeat's and a test's, one would find the record changed and be lost. */
  let registered: Promise<void> = Promise.resolve();
  const register = (given: Partial<Registration> = {}): Promise<void> => {
    registration = { ...registration, ...given };
    const write = async (): Promise<void> => {
      const record = create(WorkerRecordSchema, { workerId, epoch: 1n, address, ...registration });
      stored ??= await workers.get(workerId);
      stored = await workers.put(record, stored?.revision ?? 0);
    };
    registered = registered.catch(() => {}).then(write);
    return registered;
  };
  await register();
  const beat =
    options.heartbeatMs === undefined
      ? undefined
      : setInterval(() => void register().catch(() => {}), options.heartbeatMs);
  return Object.assign(double, {
    workerId,
    address,
    calls,
    heard,
    advance: change,
    register,
    breakConnections() {
      for (const connection of connections) connection.destroy();
    },
    async stop() {
      clearInterval(beat);
      await registered.catch(() => {});
      for (const connection of connections) connection.destroy();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  });
}

function serve<Desc extends DescMessage>(
  asked: AsyncIterable<Buffer> & NodeJS.EventEmitter,
  schema: Desc,
  events: DoubleStream,
  handle: (request: MessageShape<Desc>, events: DoubleStream) => Promise<void>,
): void {
  const chunks: Buffer[] = [];
  asked.on('data', (chunk: Buffer) => chunks.push(chunk));
  asked.on('end', () => {
    handle(fromBinary(schema, Buffer.concat(chunks).subarray(5)), events).catch(events.fail);
  });
}

function onStream(stream: ServerHttp2Stream): DoubleStream {
  const headers = { ':status': 200, 'content-type': 'application/grpc+proto' };
  return doubleStream(
    () => carryOnStream(stream),
    (trailers) => stream.respond({ ...headers, ...trailers }, { endStream: true }),
    new Promise((resolve) => stream.once('close', () => resolve())),
  );
}

/** Many calls on one stream, each with a DoubleStream of its own. */
function serveShared(
  stream: ServerHttp2Stream,
  handle: (request: ExecuteRequest, events: DoubleStream) => Promise<void>,
): void {
  const frames = createGrpcFrameReader(16 * 1_048_576);
  const leaving = new Map<number, () => void>();
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' });
  stream.on('data', (chunk: Buffer) => {
    for (const message of frames.push(chunk)) {
      const { call, request } = fromBinary(ExecuteManyRequestSchema, message);
      if (request === undefined) {
        leaving.get(call)?.();
        continue;
      }
      const left = Promise.withResolvers<void>();
      leaving.set(call, left.resolve);
      const events = sharedDouble(stream, call, left.promise);
      handle(request, events).catch(events.fail);
    }
  });
}

function sharedDouble(stream: ServerHttp2Stream, call: number, left: Promise<void>): DoubleStream {
  const send = (part: MessageInitShape<typeof ExecuteManyResponseSchema>): void => {
    const response = create(ExecuteManyResponseSchema, { ...part, call });
    if (!stream.destroyed) stream.write(grpcFrame(toBinary(ExecuteManyResponseSchema, response)));
  };
  return {
    left,
    async event(event) {
      const message = create(ExecuteResponseSchema, { event: create(ExecutionEventSchema, { event }) });
      send({ frames: grpcFrame(toBinary(ExecuteResponseSchema, message)) });
    },
    end: () => send({ end: {} }),
    handOver: () => send({ end: { rest: {} } }),
    fail: (error) => send({ end: { trailers: toTrailers(toConnectError(error, () => {})) } }),
  };
}

/** What waits for a reader at the most, before an event is waited for. */
const queueBytes = 65_536;

function doubleStream(
  begin: () => Carrier,
  refuse: (trailers: Record<string, string>) => void,
  left: Promise<void>,
): DoubleStream {
  let carrier: Carrier | undefined;
  let queued = 0;
  let room = Promise.withResolvers<void>();
  return {
    left,
    async event(event) {
      carrier ??= begin();
      const message = create(ExecuteResponseSchema, { event: create(ExecutionEventSchema, { event }) });
      const frame = grpcFrame(toBinary(ExecuteResponseSchema, message));
      queued += frame.length;
      carrier.write([frame], () => {
        queued -= frame.length;
        room.resolve();
        room = Promise.withResolvers();
      });
      while (queued > queueBytes && !carrier.gone) await Promise.race([room.promise, left]);
      if (carrier.gone) throw new Error('the reader is gone');
    },
    end: () => carrier?.end({ 'grpc-status': '0' }),
    handOver() {
      throw new Error('this call has a stream of its own');
    },
    fail(error) {
      const trailers = toTrailers(toConnectError(error, () => {}));
      if (carrier === undefined) refuse(trailers);
      else carrier.end(trailers);
    },
  };
}

const greet = (request: ExecuteRequest, stream: DoubleStream): Promise<void> => hello(request.executionId, stream);

async function hello(executionId: string, stream: DoubleStream): Promise<void> {
  const named = (event: unknown) => event as ExecutionEvent['event'];
  await stream.event(named({ case: 'started', value: { executionId } }));
  await stream.event(named({ case: 'stdout', value: { offset: 0n, data: Buffer.from('hello\n') } }));
  await stream.event(named({ case: 'finished', value: { result: { reason: 1, exitCode: 0 } } }));
  stream.end();
}
