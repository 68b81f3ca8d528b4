import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { errorToJsonBytes } from '@connectrpc/connect/protocol-connect';
import type { DomainError } from '../../shared/domain-error.ts';
import { toConnectError, toTrailers } from '../../shared/rpc-error.ts';
import type { Response } from './rpc-adapter.ts';

const unavailable = 503;

/** Answers a call of a connection that is one too many, in the words of its protocol, and asks the client to go. */
export function refuseStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, refusal: DomainError): void {
  const type = headers['content-type'] ?? '';
  const error = toConnectError(refusal, () => {});
  if (type.startsWith('application/grpc')) {
    stream.respond({ ':status': 200, 'content-type': type, ...toTrailers(error) }, { endStream: true });
  } else {
    stream.respond({ ':status': unavailable, 'content-type': 'application/json' });
    stream.end(errorToJsonBytes(error, undefined));
  }
  const { session } = stream;
  stream.resume();
  stream.once('close', () => {
    if (session === undefined || session.destroyed) return;
    session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from(refusal.message));
    session.close();
  });
}

/** The same over HTTP/1.1. */
export function refuseRequest(response: Response, refusal: DomainError): void {
  response.writeHead(unavailable, { 'content-type': 'application/json', connection: 'close', 'retry-after': '1' });
  response.end(
    errorToJsonBytes(
      toConnectError(refusal, () => {}),
      undefined,
    ),
  );
}
