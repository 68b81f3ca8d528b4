import type { ConnectRouter, Interceptor } from '@connectrpc/connect';
import type { OpenGatedCall } from '../rpc/gated-call.ts';
import { peerOf } from '../rpc/peer.ts';
import type { RequestBodies } from '../rpc/request-body.ts';
import type { PageBudget } from './page-budget.ts';
import { createRpcAdapter, discardAfter, type Request, type RequestHandler, type Response } from './rpc-adapter.ts';

export interface RequestHandlerDeps {
  readonly routes: (router: ConnectRouter) => void;
  readonly interceptor: Interceptor;
  readonly openCall: OpenGatedCall;
  readonly bodies: RequestBodies;
  readonly requestBytes: number;
  /** Aborts streams with its reason when the server stops. */
  readonly shutdownSignal: AbortSignal;
  /** Paths beside the RPCs. */
  readonly pages: ReadonlyMap<string, (response: Response) => Promise<void>>;
  readonly pageBudget: PageBudget;
  readonly onError: (error: unknown) => void;
}

/** Everything but the hot path: Connect, gRPC-Web and gRPC by the framework, and the few plain pages. */
export function createRequestHandler(deps: RequestHandlerDeps): RequestHandler {
  /** Connections of HTTP/1.1 that end with the refusal they got: what was sent behind it is not answered. */
  const refused = new WeakSet<object>();
  const rpc = createRpcAdapter({
    routes: deps.routes,
    interceptors: [deps.interceptor],
    requestBytes: deps.requestBytes,
    // Compression costs more than loopback and most networks do, and would let a small request grow without bound.
    acceptCompression: [],
    // A misspelt name would be a request for something else. Only people and scripts write JSON: clients send protobuf.
    jsonOptions: { ignoreUnknownFields: false },
    shutdownSignal: deps.shutdownSignal,
    onError: deps.onError,
    openCall: deps.openCall,
    bodies: deps.bodies,
    fallback: (request, response) => {
      if (!('stream' in request) && refused.has(request.socket)) return;
      discardAfter(request, response, () => false);
      const refusal = deps.pageBudget.spend(addressOf(request));
      if (refusal !== undefined) {
        if (!('stream' in request)) refused.add(request.socket);
        return refuse(request, response, refusal);
      }
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

function addressOf(request: Request): string {
  return peerOf('stream' in request ? request.stream.session : request.socket).address;
}

function refuse(request: Request, response: Response, refusal: string): void {
  response.setHeader('retry-after', '1');
  // On HTTP/1.1 more of the same may already be on its way.
  if (!('stream' in request)) response.setHeader('connection', 'close');
  answer(response, 429, 'text/plain', `${refusal}\n`);
}

export function answer(response: Response, status: number, contentType: string, text: string): void {
  if (response.headersSent || response.destroyed) return;
  response.statusCode = status;
  response.setHeader('content-type', contentType);
  response.end(text);
}
