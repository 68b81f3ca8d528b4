import type * as http2 from 'node:http2';
import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { openSocket } from './socket.ts';
import { createUnaryCall } from './unary-call.ts';

const streamWindowBytes = 1024 * 1024;
const connectionWindowBytes = 8 * 1024 * 1024;
const largestMessageBytes = 64 * 1024 * 1024;
// In MB. A request over it makes node reset its own stream, and the server's refusal is never read.
const sessionMemory = 64;
const defaultPingMs = 15_000;
const pingTimeoutMs = 15_000;

export interface Connection {
  readonly endpoint: string;
  readonly transport: Transport;
  /** Where a call of now belongs in a trace of the program's; undefined: nowhere. */
  traceparent(): string | undefined;
  /** Opens a call that is framed by hand, at its place in a trace. */
  request(path: string, traceparent: string | undefined): Promise<http2.ClientHttp2Stream>;
  /** Breaks every open call and frees the socket. */
  close(): void;
}

export interface ConnectionOptions {
  apiKey?: string | undefined;
  /** Certificates of authorities, as PEM. */
  ca?: readonly string[] | undefined;
  traceparent?: (() => string | undefined) | undefined;
  /** How long a server may take to accept a connection, and then to show that it speaks HTTP/2. 10 s unless given. */
  greetingMs?: number;
  /** A connection that was silent for longer is pinged before it is used. 15 s unless given. */
  pingMs?: number;
}

export function createConnection(endpoint: string, options: ConnectionOptions): Connection {
  const { apiKey, ca, traceparent, greetingMs = 10_000, pingMs = defaultPingMs } = options;
  const manager = new WideSessionManager(endpoint, ca, greetingMs, pingMs);
  const framework = createGrpcTransport({
    baseUrl: endpoint,
    sessionManager: manager,
    // Compressing output costs more than sending it, on any network worth the name.
    acceptCompression: [],
    readMaxBytes: largestMessageBytes,
    interceptors: [
      ...(apiKey === undefined ? [] : [authorize(apiKey)]),
      ...(traceparent === undefined ? [] : [passOn(traceparent)]),
    ],
  });
  const headers = {
    'content-type': 'application/grpc+proto',
    te: 'trailers',
    ...(apiKey === undefined ? {} : { authorization: toAuthorization(apiKey) }),
  };
  const request = (path: string, place: string | undefined) =>
    manager.request('POST', path, place === undefined ? headers : { ...headers, traceparent: place }, {});
  const unary = createUnaryCall((path) => request(path, traceparent?.()), largestMessageBytes);
  return {
    endpoint,
    transport: { unary, stream: framework.stream },
    traceparent: () => traceparent?.(),
    request,
    close: () => manager.abort(),
  };
}

function toAuthorization(apiKey: string): string {
  return `Bearer ${apiKey}`;
}

function authorize(apiKey: string): Interceptor {
  const authorization = toAuthorization(apiKey);
  return (next) => (request) => {
    request.header.set('authorization', authorization);
    return next(request);
  };
}

function passOn(traceparent: () => string | undefined): Interceptor {
  return (next) => (request) => {
    const place = traceparent();
    if (place !== undefined) request.header.set('traceparent', place);
    return next(request);
  };
}

/** HTTP/2's default window of 64 KiB for the whole connection more than halves the throughput of one stream. */
class WideSessionManager extends Http2SessionManager {
  private readonly widened = new WeakSet<http2.ClientHttp2Session>();

  private readonly greetingMs: number;

  constructor(endpoint: string, ca: readonly string[] | undefined, greetingMs: number, pingIntervalMs: number) {
    const settings = { initialWindowSize: streamWindowBytes };
    const createConnection = (authority: URL) => openSocket(authority, { ca, openingMs: greetingMs });
    super(endpoint, { pingIntervalMs, pingTimeoutMs }, { settings, maxSessionMemory: sessionMemory, createConnection });
    this.greetingMs = greetingMs;
  }

  override async request(...call: Parameters<Http2SessionManager['request']>): Promise<http2.ClientHttp2Stream> {
    const stream = await super.request(...call);
    failUnanswered(stream);
    const { session } = stream;
    if (session !== undefined && !session.destroyed && !this.widened.has(session as http2.ClientHttp2Session)) {
      this.widened.add(session as http2.ClientHttp2Session);
      session.setLocalWindowSize(connectionWindowBytes);
      // Its streams fail with it, and say so; a session that nobody listens to any more would end the process.
      session.on('error', () => undefined);
      // Connect, which pings a connection before it uses it again, waits for an answer or an error. One that is closed in good order has neither.
      session.once('close', () =>
        session.emit('error', new ConnectError('the connection was closed', Code.Unavailable)),
      );
      failSilent(session, this.greetingMs);
    }
    return stream;
  }
}

/** Something may accept connections and say nothing: a tunnel without an end, a server of another kind. */
function failSilent(session: http2.Http2Session, greetingMs: number): void {
  const silence = new ConnectError(`nothing was said for ${greetingMs} ms`, Code.Unavailable);
  const late = setTimeout(() => session.destroy(silence), greetingMs).unref();
  session.ping(() => clearTimeout(late));
}

/** Connect waits for ever for an answer to a stream that its peer closes without one and without an error code. */
function failUnanswered(stream: http2.ClientHttp2Stream): void {
  let answered = false;
  stream.once('response', () => {
    answered = true;
  });
  stream.once('close', () => {
    if (!answered) stream.emit('error', new ConnectError('the server closed the call unanswered', Code.Unavailable));
  });
}
