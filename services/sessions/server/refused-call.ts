import { STATUS_CODES } from 'node:http';
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { errorToJsonBytes } from '@connectrpc/connect/protocol-connect';
import type { DomainError } from '../../shared/domain-error.ts';
import { toConnectError, toTrailers } from '../../shared/rpc-error.ts';
import { discardBody, refusedBodyBytes, refusedBodyMs } from '../rpc/unread-body.ts';
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

/** What node's parser of HTTP/1.1 refuses with another status than 400. */
const parserStatus: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 };

/**
 * Answers what node's parser cannot read as HTTP/1.1, such as a control character in a header, and closes the connection:
 * where the next request would begin nobody knows. HTTP/2 needs no such answer: node drops the one header and the call goes on.
 */
export function refuseUnparsed(socket: Duplex, { code = '', message }: Error & { code?: string }): void {
  // The parser fails again for everything that still comes.
  if (socket.writableEnded) return;
  if (!socket.writable) return void socket.destroy();
  const status = parserStatus[code] ?? 400;
  const text = `the request cannot be read: ${message}\n`;
  const head = ['content-type: text/plain', `content-length: ${Buffer.byteLength(text)}`, 'connection: close'];
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('\r\n')}\r\n\r\n${text}`);
  discardBody(socket, refusedBodyBytes, refusedBodyMs, () => socket.destroy());
}
