import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { checkResponse, checkTrailers, type ResponseHeaders } from './call-status.ts';

/** Whoever reads an answer. What it throws ends the call. */
export interface ResponseReader {
  piece(piece: Buffer): void;
  /** All was read, and the status is OK. */
  complete(): void;
  /** It failed; told once, and not after `complete`. The error is made when somebody asks: a stack costs much. */
  failed(failure: () => unknown): void;
}

/** Reads the answer to a call that is framed by hand. */
export function readResponse(stream: ClientHttp2Stream, reader: ResponseReader): void {
  let trailers: IncomingHttpHeaders = {};
  let over = false;
  const fail = (failure: () => unknown): void => {
    if (over) return;
    over = true;
    reader.failed(failure);
  };
  const attempt = (step: () => void): void => {
    if (over) return;
    try {
      step();
    } catch (failure) {
      fail(() => failure);
      cancel(stream);
    }
  };
  const finish = (headers: ResponseHeaders): void => {
    checkTrailers(trailers, headers);
    reader.complete();
    over = true;
  };
  stream.once('trailers', (found: IncomingHttpHeaders) => {
    trailers = found;
  });
  // Before the response is known to be gRPC its body must not be read as such.
  stream.once('response', (headers: ResponseHeaders) => {
    attempt(() => checkResponse(headers));
    stream.on('data', (piece: Buffer) => attempt(() => reader.piece(piece)));
    stream.once('end', () => attempt(() => finish(headers)));
  });
  stream.on('error', (error) => fail(() => brokenStream(error)));
  stream.once('close', () => fail(() => new ConnectError('the server reset the stream', Code.Canceled)));
}

/** Ends a call whose answer nobody wants. */
export function cancel(stream: ClientHttp2Stream): void {
  // A stream that both sides have ended still waits for its last bytes to be read.
  if (stream.closed) stream.destroy();
  else stream.close(constants.NGHTTP2_CANCEL);
}

/** gRPC's own framing: a zero byte (not compressed), a big-endian length, the message. */
export function grpcFrame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(5 + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}

const goneCodes: ReadonlySet<unknown> = new Set(['ECONNRESET', 'ERR_STREAM_DESTROYED', 'ERR_HTTP2_INVALID_STREAM']);

function brokenStream(error: Error): ConnectError {
  const gone = 'code' in error && goneCodes.has(error.code);
  return ConnectError.from(error, gone ? Code.Aborted : Code.Internal);
}
