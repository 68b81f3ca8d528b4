import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isBrokenStream } from '../../shared/broken-stream.ts';
import { DomainError } from '../../shared/domain-error.ts';
import { createGrpcFrameReader } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import { carryOnLine, refuseLine } from './carrier.ts';
import { trailersOf } from './event-stream.ts';
import { attachPath, type HotStreams } from './hot-streams.ts';

const requestLimit = 65_536;

/**
 * Attach on a connection of its own: gRPC-Web over HTTP/1.1, with a body that ends with the connection. What reads an HTTP/2
 * stream leaves garbage for every piece of it; a bare connection can be read into the same memory for ever.
 */
export function createLines(hot: HotStreams, authorized: (given: string | undefined) => boolean, log: Logger): Server {
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 10_000 }, (request, response) => {
    response.on('error', () => {});
    serve(request, response).catch((error) => {
      // A caller that went away is no failure of the worker's. Its request may have no socket any more.
      const gone = (request.socket as Socket | null)?.destroyed ?? true;
      if (gone && isBrokenStream(error)) response.destroy();
      else if (!response.headersSent) refuseLine(response, trailersOf(error, log));
      else response.destroy();
    });
  });
  server.on('clientError', (_error, socket) => socket.destroy());
  // It never listens itself, and would otherwise not keep the list that its timeouts and its closing go by.
  server.emit('listening');

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!authorized(request.headers.authorization)) {
      throw new DomainError('UNAUTHENTICATED', "the worker's token is missing or wrong");
    }
    if (request.method !== 'POST' || request.url !== attachPath) {
      const found = `${request.method} ${request.url}`;
      throw new DomainError('UNREADABLE_REQUEST', `${found} is not served over HTTP/1.1; POST ${attachPath} is`);
    }
    const frames = createGrpcFrameReader(requestLimit);
    const messages: Buffer[] = [];
    for await (const chunk of request) {
      messages.push(...frames.push(chunk as Buffer));
      if (messages.length > 1) break;
    }
    const [message] = messages;
    if (message === undefined || messages.length > 1) {
      throw new DomainError('UNREADABLE_REQUEST', 'request: expected one whole message');
    }
    hot.attach(message, request.headers, () => carryOnLine(response));
  }

  return server;
}
