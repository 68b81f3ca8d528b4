import {
  Code,
  type ConnectRouter,
  type ConnectRouterOptions,
  createConnectRouter,
  createContextValues,
} from '@connectrpc/connect';
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from '@connectrpc/connect/protocol';
import { errorToJsonBytes } from '@connectrpc/connect/protocol-connect';
import type { connectNodeAdapter } from '@connectrpc/connect-node';
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node';
import { DomainError } from '../../shared/domain-error.ts';
import { percentEncode, toConnectError } from '../../shared/rpc-error.ts';
import type { Peer } from '../auth/peer.ts';
import { type GatedCall, gatedCallKey, type OpenGatedCall } from '../rpc/gated-call.ts';
import { isGoneClient } from '../rpc/gone-client.ts';
import { peerKey, peerOf } from '../rpc/peer.ts';
import type { RequestBodies } from '../rpc/request-body.ts';
import { discardBody, refusedBodyBytes, refusedBodyMs } from '../rpc/unread-body.ts';
import { unreadableRequest, withoutRefusable } from '../rpc/unreadable-request.ts';
import { readManyMessages, readOneMessage } from './call-body.ts';

type Adapter = ReturnType<typeof connectNodeAdapter>;
export type Request = Parameters<Adapter>[0];
export type Response = Parameters<Adapter>[1];
export type RequestHandler = (request: Request, response: Response) => void;

export interface RpcAdapterOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestBytes: number;
  readonly openCall: OpenGatedCall;
  readonly bodies: RequestBodies;
  readonly fallback: RequestHandler;
  readonly onError: (error: unknown) => void;
}

interface Bounding {
  readonly handler: UniversalHandler;
  readonly bodies: RequestBodies;
  readonly peer: Peer;
  /** Gets what was read of a call with one answer. Of a stream the framework reads the message while the handler runs. */
  readonly read: Uint8Array[];
}

interface RefusedCall {
  readonly request: UniversalServerRequest;
  readonly handler: UniversalHandler;
  readonly call: GatedCall;
  readonly read: readonly Uint8Array[];
}

/** The framework's own adapter, with the errors that it raises before any handler runs made like all others. */
export function createRpcAdapter(options: RpcAdapterOptions): RequestHandler {
  const { routes, requestBytes, openCall, bodies, fallback, onError, ...routing } = options;
  const router = createConnectRouter({ ...routing, readMaxBytes: requestBytes });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return (request, response) => {
    const handler = handlers.get((request.url ?? '').split('?', 1)[0] ?? '');
    if (handler === undefined) return fallback(request, response);
    const peer = peerOf('stream' in request ? request.stream.session : request.socket);
    const values = createContextValues().set(peerKey, peer);
    const universal = universalRequestFromNodeRequest(request, response, undefined, values);
    const { method } = handler;
    // Not the response: of HTTP/1.1 it is told later than the writes that failed.
    const isClosed = (): boolean => ('stream' in request ? request.stream : request.socket).destroyed;
    const call = openCall({
      ...{ method: `${method.parent.typeName}/${method.name}`, streaming: method.methodKind !== 'unary' },
      ...{ header: universal.header, peer, isClosed },
    });
    values.set(gatedCallKey, call);
    letGoAfter(request, response, call);
    const read: Uint8Array[] = [];
    handler(bounded(universal, request, call, { handler, bodies, peer, read }))
      .then((answer) => explained(answer, universal, handler))
      .then((answer) => typed(answer, { request: universal, handler, call, read }))
      .then(readable)
      .then((answer) => universalResponseToNodeResponse(answer, response))
      .catch((error: unknown) => {
        // A client that went away while it was being answered is no news.
        if (!response.destroyed && !isGoneClient(error, isClosed)) onError(error);
        response.destroy();
      });
  };
}

/** The call's request with a body that is read only once the call was let in, within its limits. */
function bounded(
  request: UniversalServerRequest,
  node: Request,
  call: GatedCall,
  how: Bounding,
): UniversalServerRequest {
  const { handler, bodies, peer, read } = how;
  const { methodKind } = handler.method;
  const one = methodKind === 'unary' || methodKind === 'server_streaming';
  // The framework would look at it first and refuse in words of its own.
  if (one) request.header.delete('content-length');
  const framed = /^application\/(grpc|connect)/.test(request.header.get('content-type') ?? '');
  const body = (one ? readOneMessage : readManyMessages)(node, {
    call,
    bodies,
    peer,
    framed,
    unary: methodKind === 'unary',
  });
  return {
    ...request,
    body: methodKind === 'unary' ? noted(body, read) : body,
    signal: AbortSignal.any([request.signal, call.signal]),
  };
}

/** How long a client may go on sending after its call was answered. */
const lingerMs = 5_000;

/** Ends what is left of a call that was answered: its record, and a request that was not read to its end. */
function letGoAfter(request: Request, response: Response, call: GatedCall): void {
  let known = false;
  call.admitted.then(
    (caller) => {
      known = caller !== undefined;
    },
    // HTTP/1.1 has no other way to say that the rest of the body is not wanted.
    () => {
      if (!('stream' in request) && !response.headersSent) response.setHeader('connection', 'close');
    },
  );
  discardAfter(request, response, () => known);
  // What the framework refuses by itself is a request that cannot be understood.
  response.once('close', () => call.finish(response.writableFinished ? Code.InvalidArgument : Code.Canceled));
}

/** Once a request was answered, throws away a little of what still comes of it, or much where its caller is known. */
export function discardAfter(request: Request, response: Response, isKnown: () => boolean): void {
  // A response of HTTP/2 says that it is finished only when its stream is closed; the stream says it when all was sent.
  const stream = 'stream' in request ? request.stream : undefined;
  (stream ?? response).once('finish', () => {
    const sending = stream ?? request;
    if (sending.readableEnded || sending.destroyed) return;
    const [limitBytes, ms] = isKnown() ? [Number.POSITIVE_INFINITY, lingerMs] : [refusedBodyBytes, refusedBodyMs];
    discardBody(sending, limitBytes, ms, () => (stream ?? request.socket).destroy());
  });
}

/** The framework leaves the body of these two refusals empty. */
function explained(
  answer: UniversalServerResponse,
  { method, header }: UniversalServerRequest,
  handler: UniversalHandler,
): UniversalServerResponse {
  if (answer.status !== 405 && answer.status !== 415) return answer;
  const json = handler.method.methodKind === 'unary' ? 'application/json' : 'application/connect+json';
  const type = header.get('content-type') ?? 'none';
  const [name, found, expected] =
    answer.status === 405
      ? ['method', method, 'POST']
      : ['content-type', type, `${json}, or proto instead of json, or application/grpc or application/grpc-web`];
  const example = `curl -H 'Content-Type: application/json' -H "Authorization: Bearer $ASSAY_API_KEY" -d '{}' http://…${handler.requestPath}`;
  const advice = handler.method.methodKind === 'unary' ? `; type: ${example}` : '; use a client of gRPC or Connect';
  const refusal = new DomainError(
    'UNREADABLE_REQUEST',
    `${name}: found ${found}, expected ${expected}${advice}`,
    answer.status === 405 ? {} : { header: name },
  );
  const bytes = errorToJsonBytes(
    toConnectError(refusal, () => {}),
    undefined,
  );
  const headers = new Headers(answer.header);
  headers.set('content-type', 'application/json');
  if (answer.status === 405) headers.set('allow', 'POST');
  return { ...answer, header: headers, body: once(bytes) };
}

/** Answers a call that the framework refused before any handler ran once more, with an error like all others in the call's protocol. */
async function typed(answer: UniversalServerResponse, refused: RefusedCall): Promise<UniversalServerResponse> {
  const { request, handler, call, read } = refused;
  if (call.isHeard || answer.status === 405 || answer.status === 415) return answer;
  await answer.body?.[Symbol.asyncIterator]().return?.();
  const error = unreadableRequest(handler.method, request.header, Buffer.concat(read));
  return handler({ ...request, header: withoutRefusable(request.header), body: failing(call, error) });
}

/** A body that cannot be read. Who may not call is told that first. */
function failing(call: GatedCall, error: DomainError): AsyncIterable<Uint8Array> {
  const next = async (): Promise<never> => {
    await call.admitted;
    throw call.refuse(error);
  };
  return { [Symbol.asyncIterator]: () => ({ next }) };
}

/** The same chunks, and a list of them. */
async function* noted(chunks: AsyncIterable<Uint8Array>, read: Uint8Array[]): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    read.push(chunk);
    yield chunk;
  }
}

/** The framework escapes more of an error's sentence than the protocol asks for, and not every client undoes that. */
function readable(answer: UniversalServerResponse): UniversalServerResponse {
  const { body, trailer } = answer;
  if (body === undefined || trailer === undefined) return answer;
  return { ...answer, body: afterwards(body, () => rewrite(trailer)) };
}

function rewrite(trailer: Headers): void {
  const message = trailer.get('grpc-message');
  if (message !== null) trailer.set('grpc-message', percentEncode(decodeURIComponent(message)));
}

async function* afterwards(body: AsyncIterable<Uint8Array>, then: () => void): AsyncGenerator<Uint8Array> {
  yield* body;
  then();
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
