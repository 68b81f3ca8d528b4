import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import {
  type ExecuteManyEnd,
  ExecuteManyRequestSchema,
  ExecuteManyResponseSchema,
  WorkerService,
} from '../../../gen/assay/worker/v1/worker_pb.js';
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

/** Executes that share one stream to their worker: opening one for each would cost more than most commands do. */
export interface SharedStreams {
  /** Sends an encoded ExecuteRequest. Returns how to leave the call. Rejects with WORKER_UNREACHABLE. */
  execute(
    address: string,
    request: Uint8Array,
    traceparent: string | undefined,
    reader: CallReader,
  ): Promise<() => void>;
}

interface SharedStream {
  execute(request: Uint8Array, traceparent: string | undefined, reader: CallReader): () => void;
}

const messageBytes = 16 * 1_048_576;
const { method, typeName } = WorkerService;
const callField = ExecuteManyRequestSchema.field.call.number;
const requestField = ExecuteManyRequestSchema.field.request.number;
const traceField = ExecuteManyRequestSchema.field.traceparent.number;

export function createSharedStreams(links: WorkerLinks, token: string): SharedStreams {
  const streams = new WeakMap<ClientHttp2Session, SharedStream>();
  return {
    async execute(address, request, traceparent, reader) {
      const session = await links.open(address);
      let shared = streams.get(session);
      if (shared === undefined) {
        shared = share(openStream(session, address, token), () => streams.delete(session));
        streams.set(session, shared);
      }
      return shared.execute(request, traceparent, reader);
    },
  };
}

function openStream(session: ClientHttp2Session, address: string, token: string): ClientHttp2Stream {
  try {
    return session.request({
      ':method': 'POST',
      ':path': `/${typeName}/${method.executeMany.name}`,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      authorization: `Bearer ${token}`,
    });
  } catch (error) {
    // Of a link that is gone this Node tells the stream; others throw.
    throw workerUnreachable(address, error);
  }
}

function share(stream: ClientHttp2Stream, closed: () => void): SharedStream {
  const readers = new Map<number, CallReader>();
  const frames = createGrpcFrameReader(messageBytes);
  let last = 0;
  let cause: unknown = 'it ended early';

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
    closed();
    for (const reader of readers.values()) reader.broken(cause);
    readers.clear();
  });
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

  return {
    execute(request, traceparent, reader) {
      const call = ++last;
      readers.set(call, reader);
      send(call, request, traceparent);
      return () => {
        if (readers.delete(call)) send(call);
      };
    },
  };
}
