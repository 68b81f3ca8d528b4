import { create, toBinary } from '@bufbuild/protobuf';
import {
  Code,
  type ConnectRouter,
  type ConnectRouterOptions,
  type ContextValues,
  createConnectRouter,
} from '@connectrpc/connect';
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from '@connectrpc/connect/protocol';
import type { connectNodeAdapter } from '@connectrpc/connect-node';
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node';
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.js';
import { grpcPrefixBytes } from '../../shared/grpc-frame.ts';
import { percentEncode, toConnectError } from '../../shared/rpc-error.ts';
import { codeWord } from '../rpc/call-record.ts';
import { overLimit } from '../validation/field.ts';

type Adapter = ReturnType<typeof connectNodeAdapter>;
export type Request = Parameters<Adapter>[0];
export type Response = Parameters<Adapter>[1];
export type RequestHandler = (request: Request, response: Response) => void;

export interface RpcAdapterOptions extends ConnectRouterOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly requestBytes: number;
  readonly contextValues: (request: Request) => ContextValues;
  readonly fallback: RequestHandler;
  readonly onError: (error: unknown) => void;
}

/** The framework's own adapter, with the errors that it raises before any handler runs made like all others. */
export function createRpcAdapter(options: RpcAdapterOptions): RequestHandler {
  const { routes, requestBytes, contextValues, fallback, onError, ...routing } = options;
  const router = createConnectRouter({ ...routing, readMaxBytes: requestBytes });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return (request, response) => {
    const handler = handlers.get((request.url ?? '').split('?', 1)[0] ?? '');
    if (handler === undefined) return fallback(request, response);
    const universal = universalRequestFromNodeRequest(request, response, undefined, contextValues(request));
    handler(bounded(universal, handler, requestBytes))
      .then((answer) => typed(answer, handler))
      .then(readable)
      .then((answer) => universalResponseToNodeResponse(answer, response))
      .catch((error: unknown) => {
        // A client that went away while it was being answered is no news.
        if (!response.destroyed) onError(error);
        response.destroy();
      });
  };
}

/** One message to a request: what is longer than a message may be is refused while it comes in. */
function bounded(request: UniversalServerRequest, handler: UniversalHandler, limit: number): UniversalServerRequest {
  const { methodKind } = handler.method;
  if (methodKind !== 'unary' && methodKind !== 'server_streaming') return request;
  // The framework would look at it first and refuse in words of its own.
  request.header.delete('content-length');
  const framed = /^application\/(grpc|connect)/.test(request.header.get('content-type') ?? '');
  return { ...request, body: atMost(request.body as AsyncIterable<Uint8Array>, limit, framed) };
}

async function* atMost(body: AsyncIterable<Uint8Array>, limit: number, framed: boolean): AsyncGenerator<Uint8Array> {
  const refuse = (bytes: number): Error => toConnectError(overLimit('request', bytes, limit, 'bytes'), () => {});
  const prefix = framed ? grpcPrefixBytes : 0;
  let held = Buffer.alloc(0);
  let bytes = 0;
  for await (const chunk of body) {
    const begun = bytes >= prefix;
    bytes += chunk.length;
    if (bytes > limit + prefix) throw refuse(bytes - prefix);
    if (begun) yield chunk;
    else {
      held = Buffer.concat([held, chunk]);
      if (bytes < prefix) continue;
      // The announced length says it before the bytes are there.
      if (held.readUInt32BE(1) > limit) throw refuse(held.readUInt32BE(1));
      yield held;
    }
  }
  if (bytes < prefix) yield held;
}

interface JsonError {
  code?: string;
  message?: string;
  details?: unknown[];
}

/** JSON that cannot be read as the message is refused by the framework; it gets the detail that every error has. */
async function typed(answer: UniversalServerResponse, handler: UniversalHandler): Promise<UniversalServerResponse> {
  const json = answer.header?.get('content-type') === 'application/json';
  if (answer.status !== 400 || !json || handler.method.methodKind !== 'unary' || answer.body === undefined)
    return answer;
  const bytes = Buffer.concat(await Array.fromAsync(answer.body));
  const error = JSON.parse(bytes.toString()) as JsonError;
  if (error.code !== codeWord(Code.InvalidArgument) || error.details !== undefined)
    return { ...answer, body: once(bytes) };
  const field = /field \S*\.(\w+) from JSON/.exec(error.message ?? '')?.[1] ?? 'request';
  const info = create(ErrorInfoSchema, { reason: 'INVALID_FIELD', domain: 'assay.dev', metadata: { field } });
  const value = Buffer.from(toBinary(ErrorInfoSchema, info)).toString('base64').replace(/=+$/, '');
  const details = [{ type: ErrorInfoSchema.typeName, value }];
  const patched = Buffer.from(JSON.stringify({ ...error, details }));
  answer.header?.set('content-length', String(patched.length));
  return { ...answer, body: once(patched) };
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
