import { once } from 'node:events';
import { createServer as createHttp1Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createConnectionRouter } from '../../shared/connection-router.ts';
import { DomainError } from '../../shared/domain-error.ts';
import { toConnectError } from '../../shared/rpc-error.ts';
import type { Limits } from '../config.ts';
import type { HotPath } from '../relay/hot-path.ts';
import type { UnaryPath } from '../relay/unary-path.ts';
import { createHttp2Server } from './http2-server.ts';
import { createInFlight } from './in-flight.ts';
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
const headerBytes = 65_536;

export async function openPublicServer(deps: PublicServerDeps): Promise<PublicServer> {
  const { hotPath, limits, listen, shutdown } = deps;
  const inFlight = createInFlight();
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
  const http2 = createHttp2Server([hotPath, unary], handler, limits.streamsPerConnection);
  const http1 = createHttp1Server(
    { maxHeaderSize: headerBytes, headersTimeout: 10_000, requestTimeout: 60_000, connectionsCheckingInterval: 5_000 },
    handler,
  );
  http1.on('clientError', (_error, socket) => socket.destroy());
  // It never listens itself, and would otherwise not keep the list that its timeouts and its closing go by.
  http1.emit('listening');
  const router = createConnectionRouter(http1, http2.server, limits.connections);
  router.listen(listen.port, listen.host);
  await once(router, 'listening');
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
      await closed;
    },
  };
}
