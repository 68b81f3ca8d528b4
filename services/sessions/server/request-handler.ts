import { type ConnectRouter, createContextValues, type Interceptor } from '@connectrpc/connect';
import { peerKey } from '../rpc/peer.ts';
import { createRpcAdapter, type RequestHandler, type Response } from './rpc-adapter.ts';

export interface RequestHandlerDeps {
  readonly routes: (router: ConnectRouter) => void;
  readonly interceptor: Interceptor;
  readonly requestBytes: number;
  /** Aborts streams with its reason when the server stops. */
  readonly shutdownSignal: AbortSignal;
  /** Paths beside the RPCs. */
  readonly pages: ReadonlyMap<string, (response: Response) => Promise<void>>;
  readonly onError: (error: unknown) => void;
}

/** Everything but the hot path: Connect, gRPC-Web and gRPC by the framework, and the few plain pages. */
export function createRequestHandler(deps: RequestHandlerDeps): RequestHandler {
  const rpc = createRpcAdapter({
    routes: deps.routes,
    interceptors: [deps.interceptor],
    requestBytes: deps.requestBytes,
    // Compression costs more than loopback and most networks do, and would let a small request grow without bound.
    acceptCompression: [],
    shutdownSignal: deps.shutdownSignal,
    onError: deps.onError,
    contextValues: (request) => createContextValues().set(peerKey, request.socket?.remoteAddress ?? ''),
    fallback: (request, response) => {
      const page = deps.pages.get((request.url ?? '').split('?', 1)[0] ?? '');
      if (page === undefined || request.method !== 'GET') return answer(response, 404, 'text/plain', 'not found\n');
      page(response).catch((error: unknown) => {
        deps.onError(error);
        answer(response, 500, 'text/plain', 'failed\n');
      });
    },
  });
  return (request, response) => {
    request.on('error', () => {});
    response.on('error', () => {});
    try {
      rpc(request, response);
    } catch {
      // The framework throws for requests it cannot even describe, such as one without a host.
      answer(response, 400, 'text/plain', 'bad request\n');
    }
  };
}

export function answer(response: Response, status: number, contentType: string, text: string): void {
  if (response.headersSent || response.destroyed) return;
  response.statusCode = status;
  response.setHeader('content-type', contentType);
  response.end(text);
}
