import type { ClientHttp2Stream } from 'node:http2';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, type Transport } from '@connectrpc/connect';
import { createFrameReader } from './frame-reader.ts';
import { grpcFrame, readResponse } from './grpc-response.ts';

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
    const frames = createFrameReader(largestMessageBytes, (message) => {
      if (answer !== undefined) throw new ConnectError('the answer holds more than one message', Code.Unimplemented);
      answer = message;
    });
    readResponse(stream, {
      piece: frames.push,
      complete() {
        frames.finish();
        if (answer === undefined) throw new ConnectError('the answer holds no message', Code.Unimplemented);
        resolve(answer);
      },
      failed: (failure) => reject(failure()),
    });
    stream.end(grpcFrame(request));
  });
}
