import { once } from 'node:events';
import { createServer as createHttp1Server, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { ConfigError } from '../../shared/config.ts';
import { createConnectionRouter } from '../../shared/connection-router.ts';
import { DomainError } from '../../shared/domain-error.ts';
import { toConnectError } from '../../shared/rpc-error.ts';
import type { Limits } from '../config.ts';
import type { HotPath } from '../relay/hot-path.ts';
import type { UnaryPath } from '../relay/unary-path.ts';
import { notePeer } from '../rpc/peer.ts';
import { createConnections } from './connections.ts';
import { createHttp2Server } from './http2-server.ts';
import { createInFlight } from './in-flight.ts';
import { refuseRequest, refuseUnparsed } from './refused-call.ts';
import type { RequestHandler } from './rpc-adapter.ts';

export interface PublicServer {
  readonly port: number;
  /** Stops accepting, lets unary calls finish for a while, ends streams with SHUTTING_DOWN, closes connections. */
  close(): Promise<void>;
}

export interface PublicServerDeps {
  readonly hotPath: HotPath;
  readonly unaryPath: UnaryPath;
  readonly handler: RequestHandler;
  readonly limits: Limits;
  readonly listen: { readonly host: string; readonly port: number };
  /** Aborted on close: how the streams of the ordinary way hear of it. */
  readonly shutdown: AbortController;
}

const finishMs = 5_000;
/** By how much the server of HTTP/1.1, which ends a slow request without a word, leaves the refusal to the call. */
const graceMs = 10_000;
const headerBytes = 65_536;

export async function openPublicServer(deps: PublicServerDeps): Promise<PublicServer> {
  const { hotPath, limits, listen, shutdown } = deps;
  const inFlight = createInFlight();
  const connections = createConnections(limits);
  const handler: RequestHandler = (request, response) => {
    inFlight.track(response);
    deps.handler(request, response);
  };
  const unary: UnaryPath = {
    takes: deps.unaryPath.takes,
    serve(stream, headers) {
      inFlight.track(stream);
      deps.unaryPath.serve(stream, headers);
    },
  };
  const http2 = createHttp2Server([hotPath, unary], handler, limits.streamsPerConnection, connections.ofSession);
  /** The requests of a connection of HTTP/1.1 that have no whole answer yet. */
  const unanswered = new WeakMap<Duplex, Map<IncomingMessage, ServerResponse>>();
  const http1 = createHttp1Server(
    {
      maxHeaderSize: headerBytes,
      headersTimeout: 10_000,
      requestTimeout: limits.requestMs + graceMs,
      connectionsCheckingInterval: 5_000,
    },
    (request, response) => {
      const { socket } = request;
      const connection = connections.ofSocket(socket);
      const open = unanswered.get(socket) ?? new Map<IncomingMessage, ServerResponse>();
      unanswered.set(socket, open.set(request, response));
      response.once('close', () => open.delete(request));
      if (connection.refusal !== undefined) return refuseRequest(response, connection.refusal);
      response.once('close', connection.begin());
      handler(request, response);
    },
  );
  http1.on('connection', (socket) => notePeer(socket, connections.ofSocket(socket)));
  http1.on('clientError', (error, socket) => {
    const open = [...(unanswered.get(socket) ?? [])];
    const last = open.at(-1);
    // Bytes that follow whole requests take no answer from those. Of a request that is not whole there will be none.
    if (last === undefined || (open.length === 1 && !last[0].complete && !last[1].headersSent)) {
      refuseUnparsed(socket, error);
    } else if (last[0].complete) {
      last[1].once('close', () => socket.destroy());
    } else socket.destroy();
  });
  // It never listens itself, and would otherwise not keep the list that its timeouts and its closing go by.
  http1.emit('listening');
  const router = createConnectionRouter(http1, http2.server);
  router.on('connection', connections.open);
  router.listen(listen.port, listen.host);
  await once(router, 'listening').catch((error: Error) => {
    throw new ConfigError(`bad configuration:\n  ASSAY_LISTEN: cannot listen there: ${error.message}`);
  });
  return {
    port: (router.address() as AddressInfo).port,
    async close() {
      const closed = once(router, 'close');
      router.close();
      http2.goAway();
      const error = new DomainError('SHUTTING_DOWN', 'this server is about to stop; call again, another one answers');
      shutdown.abort(toConnectError(error, () => {}));
      hotPath.endAll(error);
      await inFlight.settled(finishMs);
      http1.close();
      http1.closeAllConnections();
      http2.destroyAll();
      connections.close();
      await closed;
    },
  };
}
