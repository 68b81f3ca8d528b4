import type { ClientHttp2Session } from 'node:http2';
import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf';
import { create, toBinary } from '@bufbuild/protobuf';
import { grpcFrame } from '../../../services/shared/grpc-frame.ts';

/** A server stream that is read without decoding: one process reads far more than the TypeScript client could. */
export interface RawStream {
  /** Resolves at the end of the stream, or when the bytes of `until` have come. */
  readonly done: Promise<void>;
}

export function openRawStream<Request extends DescMessage>(
  connection: ClientHttp2Session,
  key: string,
  call: { path: string; schema: Request; request: MessageInitShape<Request>; until?: string },
): RawStream {
  const stream = connection.request({
    ':method': 'POST',
    ':path': call.path,
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: `Bearer ${key}`,
  });
  stream.end(grpcFrame(toBinary(call.schema, create(call.schema, call.request))));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const { until } = call;
  // The mark may be cut by the border of two chunks.
  let tail = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    if (until === undefined) return;
    if (chunk.includes(until) || Buffer.concat([tail, chunk.subarray(0, until.length)]).includes(until)) {
      stream.close();
      resolve();
    }
    tail = Buffer.from(chunk.subarray(-until.length));
  });
  stream.on('trailers', (trailers) => {
    if (trailers['grpc-status'] === '0') resolve();
    else reject(new Error(`${call.path} ended with ${trailers['grpc-status']}: ${trailers['grpc-message']}`));
  });
  stream.on('error', reject);
  stream.on('close', () => reject(new Error(`${call.path} was closed without trailers`)));
  return { done: promise };
}
