import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from 'node:http2';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { checkResponse, checkTrailers, type ResponseHeaders } from './call-status.ts';
import { brokenStream, grpcFrame } from './event-stream.ts';
import { createFrameReader } from './frame-reader.ts';

/**
 * Calls with one request and one answer, framed by hand: they lie on the way of every new session and every input. They
 * have no deadline and no headers of their own, and nobody leaves them early.
 */
export function createUnaryCall(
  request: (path: string) => Promise<ClientHttp2Stream>,
  largestMessageBytes: number,
): Transport['unary'] {
  return async (method, _signal, _timeoutMs, _header, input) => {
    const message = toBinary(method.input, create(method.input, input));
    const stream = await request(`/${method.parent.typeName}/${method.name}`);
    const answer = fromBinary(method.output, await readAnswer(stream, message, largestMessageBytes));
    const nothing = new Headers();
    return {
      stream: false,
      service: method.parent,
      method,
      header: nothing,
      trailer: nothing,
      message: answer,
    };
  };
}

function readAnswer(stream: ClientHttp2Stream, request: Uint8Array, largestMessageBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    let answer: Uint8Array | undefined;
    let done = false;
    let trailers: IncomingHttpHeaders = {};
    const frames = createFrameReader(largestMessageBytes, (message) => {
      if (answer !== undefined) throw new ConnectError('the answer holds more than one message', Code.Unimplemented);
      answer = message;
    });
    const attempt = (step: () => void): void => {
      try {
        step();
      } catch (failure) {
        reject(failure);
        stream.close(constants.NGHTTP2_CANCEL);
      }
    };
    const finish = (headers: ResponseHeaders): void => {
      checkTrailers(trailers, headers);
      if (!frames.complete) throw new ConnectError('the stream ended inside a message', Code.InvalidArgument);
      if (answer === undefined) throw new ConnectError('the answer holds no message', Code.Unimplemented);
      done = true;
      resolve(answer);
    };
    stream.once('trailers', (found: IncomingHttpHeaders) => {
      trailers = found;
    });
    stream.once('response', (headers: ResponseHeaders) => {
      attempt(() => checkResponse(headers));
      stream.on('data', (piece: Buffer) => attempt(() => frames.push(piece)));
      stream.once('end', () => attempt(() => finish(headers)));
    });
    stream.on('error', (error) => reject(brokenStream(error)));
    stream.once('close', () => {
      if (!done) reject(new ConnectError('the server reset the stream', Code.Canceled));
    });
    stream.end(grpcFrame(request));
  });
}
