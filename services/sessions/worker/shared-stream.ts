import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  type ExecuteManyEnd,
  ExecuteManyRequestSchema,
  ExecuteManyResponseSchema,
  WorkerService,
} from '../../../gen/assay/internal/v1/worker_pb.js';
import { createGrpcFrameReader, grpcFrame } from '../../shared/grpc-frame.ts';
import { type WorkerLinks, workerUnreachable } from './worker-link.ts';
import { errorOfStatus, statusOf } from './worker-status.ts';

/** Whoever reads one call of a shared stream. */
export interface CallReader {
  /** Events as gRPC frames. */
  frames(bytes: Uint8Array): void;
  end(end: ExecuteManyEnd): void;
  /** The stream broke, with all of its calls. */
  broken(cause: unknown): void;
}

/**
 * Executes of one project that share one stream to their worker: opening one for each would cost more than most commands
 * do. Projects share none: what one sends is sent in order, and would hold up the others behind it.
 */
export interface SharedStreams {
  /** Sends an encoded ExecuteRequest. Returns how to leave the call. Rejects with WORKER_UNREACHABLE. */
  execute(
    address: string,
    project: string,
    request: Uint8Array,
    traceparent: string | undefined,
    reader: CallReader,
  ): Promise<() => void>;
}

interface SharedStream {
  execute(request: Uint8Array, traceparent: string | undefined, reader: CallReader): () => void;
}

const messageBytes = 16 * 1_048_576;
/** What is given to a stream that its worker does not read. The rest waits here, where it can be given up. */
const queueLimitBytes = 1_048_576;
/** A stream without calls is ended after this, or a little later. */
const idleMs = 60_000;
const { method, typeName } = WorkerService;
const callField = ExecuteManyRequestSchema.field.call.number;
const requestField = ExecuteManyRequestSchema.field.request.number;
const traceField = ExecuteManyRequestSchema.field.traceparent.number;

export function createSharedStreams(links: Pick<WorkerLinks, 'open' | 'watch'>, token: string): SharedStreams {
  const streams = new WeakMap<ClientHttp2Session, Map<string, SharedStream>>();
  return {
    async execute(address, project, request, traceparent, reader) {
      const session = await links.open(address);
      let ofSession = streams.get(session);
      if (ofSession === undefined) {
        ofSession = new Map();
        streams.set(session, ofSession);
      }
      const projects = ofSession;
      let shared = projects.get(project);
      if (shared === undefined) {
        shared = share(openStream(links, session, address, token), () => {
          if (projects.get(project) === shared) projects.delete(project);
        });
        projects.set(project, shared);
      }
      return shared.execute(request, traceparent, reader);
    },
  };
}

function openStream(
  links: Pick<WorkerLinks, 'watch'>,
  session: ClientHttp2Session,
  address: string,
  token: string,
): ClientHttp2Stream {
  try {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${typeName}/${method.executeMany.name}`,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      authorization: `Bearer ${token}`,
    });
    links.watch(session, stream);
    return stream;
  } catch (error) {
    // Of a link that is gone this Node tells the stream; others throw.
    throw workerUnreachable(address, error);
  }
}

function share(stream: ClientHttp2Stream, closed: () => void): SharedStream {
  const readers = new Map<number, CallReader>();
  /** In order. A request that is left before it was sent is never sent. */
  const unsent = new Map<number, { request: Uint8Array; traceparent: string | undefined }>();
  const frames = createGrpcFrameReader(messageBytes);
  let last = 0;
  let cause: unknown = 'it ended early';
  let used = true;
  const idle = setTimeout(() => {
    if (!used && readers.size === 0) {
      closed();
      stream.end();
      return;
    }
    used = false;
    idle.refresh();
  }, idleMs).unref();

  stream.on('error', (error) => {
    cause = error;
  });
  const note = (headers: Parameters<typeof statusOf>[0]): void => {
    const status = statusOf(headers);
    cause = (status && errorOfStatus(status)) ?? cause;
  };
  stream.on('response', note);
  stream.on('trailers', note);
  stream.on('close', () => {
    clearTimeout(idle);
    closed();
    for (const reader of readers.values()) reader.broken(cause);
    readers.clear();
    unsent.clear();
  });
  stream.on('drain', sendUnsent);
  stream.on('data', (chunk: Buffer) => {
    try {
      for (const message of frames.push(chunk)) take(message);
    } catch (error) {
      stream.destroy(error as Error);
    }
  });

  function take(message: Buffer): void {
    const { call, frames: events, end } = fromBinary(ExecuteManyResponseSchema, message);
    const reader = readers.get(call);
    if (reader === undefined) return;
    if (events.length > 0) reader.frames(events);
    if (end === undefined) return;
    readers.delete(call);
    reader.end(end);
  }

  function send(call: number, request?: Uint8Array, traceparent?: string): void {
    const writer = new BinaryWriter().tag(callField, WireType.Varint).uint32(call);
    if (request !== undefined) writer.tag(requestField, WireType.LengthDelimited).bytes(request);
    if (traceparent !== undefined) writer.tag(traceField, WireType.LengthDelimited).string(traceparent);
    if (!stream.destroyed) stream.write(grpcFrame(writer.finish()));
  }

  function sendUnsent(): void {
    for (const [call, { request, traceparent }] of unsent) {
      if (stream.writableLength > queueLimitBytes) return;
      unsent.delete(call);
      send(call, request, traceparent);
    }
  }

  return {
    execute(request, traceparent, reader) {
      used = true;
      const call = ++last;
      readers.set(call, reader);
      unsent.set(call, { request, traceparent });
      sendUnsent();
      return () => {
        if (readers.delete(call) && !unsent.delete(call)) send(call);
      };
    },
  };
}
