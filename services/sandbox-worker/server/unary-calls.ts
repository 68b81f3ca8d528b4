import type { ServerHttp2Stream } from 'node:http2';
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { createGrpcFrameReader, grpcFrame } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import { refuse } from './event-stream.ts';
import type { WorkerHandlers } from './worker-service.ts';

const requestLimit = 4 * 1_048_576;
const headers = { ':status': 200, 'content-type': 'application/grpc+proto' };
const trailers = { 'grpc-status': '0' };

type Handler = (request: unknown) => MessageInitShape<DescMessage> | Promise<MessageInitShape<DescMessage>>;

/**
 * The calls with one request and one answer, framed by hand: they lie on the way of every warm session and of every
 * input. Returns whether the stream was one of them.
 */
export function createUnaryCalls(
  handlers: WorkerHandlers,
  log: Logger,
): (stream: ServerHttp2Stream, path: string) => boolean {
  const calls = new Map<string, { method: DescMethod; handle: Handler }>();
  for (const method of WorkerService.methods) {
    const handle = (handlers as Record<string, unknown>)[method.localName];
    if (method.methodKind !== 'unary' || typeof handle !== 'function') continue;
    calls.set(`/${WorkerService.typeName}/${method.name}`, { method, handle: handle as Handler });
  }

  return (stream, path) => {
    const call = calls.get(path);
    if (call === undefined) return false;
    const reader = createGrpcFrameReader(requestLimit);
    let begun = false;
    stream.on('data', (chunk: Buffer) => {
      try {
        const message = reader.push(chunk)[0];
        if (message === undefined || begun) return;
        begun = true;
        answer(stream, call.method, call.handle, message).catch((error) => refuse(stream, error, log));
      } catch (error) {
        refuse(stream, error, log);
      }
    });
    return true;
  };
}

async function answer(stream: ServerHttp2Stream, method: DescMethod, handle: Handler, message: Buffer): Promise<void> {
  const response = await handle(fromBinary(method.input, message));
  const bytes = toBinary(method.output, create(method.output, response));
  // Who asked is gone; what was done stays done.
  if (stream.destroyed) return;
  stream.respond(headers, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.end(grpcFrame(bytes));
}
