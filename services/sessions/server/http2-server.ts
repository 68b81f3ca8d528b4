import {
  constants,
  createServer,
  type Http2Server,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';

const streamWindowBytes = 1_048_576;
const connectionWindowBytes = 8 * 1_048_576;
const pingEveryMs = 20_000;
const pingTimeoutMs = 15_000;

/** A way beside the framework. */
export interface OwnPath {
  takes(headers: IncomingHttpHeaders): boolean;
  serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
}

export interface SessionsHttp2Server {
  readonly server: Http2Server;
  /** Tells every client to open no more streams here. */
  goAway(): void;
  destroyAll(): void;
}

/** HTTP/2: each path takes its own streams, everything else becomes an ordinary request. */
export function createHttp2Server(
  paths: readonly OwnPath[],
  handler: (request: Http2ServerRequest, response: Http2ServerResponse) => void,
  maxConcurrentStreams: number,
): SessionsHttp2Server {
  const server = createServer({
    settings: { initialWindowSize: streamWindowBytes, maxConcurrentStreams, enablePush: false },
    // In megabytes: what is queued to a client that reads slowly counts, on all of its streams together.
    maxSessionMemory: 128,
    maxHeaderListPairs: 128,
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => session.destroy());
    session.once('close', () => sessions.delete(session));
    session.setLocalWindowSize(connectionWindowBytes);
    keepAlive(session);
  });
  server.on('sessionError', () => {});
  server.on('stream', (stream, headers, _flags, rawHeaders) => {
    stream.on('error', () => {});
    const path = paths.find(({ takes }) => takes(headers));
    if (path !== undefined) return path.serve(stream, headers);
    const request = new Http2ServerRequest(stream, headers, {}, rawHeaders as unknown as readonly string[]);
    handler(request, new Http2ServerResponse(stream));
  });
  return {
    server,
    goAway() {
      for (const session of sessions) if (!session.destroyed) session.goaway(constants.NGHTTP2_NO_ERROR);
    },
    destroyAll() {
      for (const session of sessions) session.destroy();
    },
  };
}

/** A client whose machine vanished holds streams until a ping goes unanswered. */
function keepAlive(session: ServerHttp2Session): void {
  let timer: NodeJS.Timeout | undefined;
  const pings = setInterval(() => {
    // One that was destroyed may not have closed yet.
    if (session.destroyed) return;
    clearTimeout(timer);
    timer = setTimeout(() => session.destroy(), pingTimeoutMs);
    const sent = session.ping(() => clearTimeout(timer));
    if (!sent) clearTimeout(timer);
  }, pingEveryMs);
  session.once('close', () => {
    clearInterval(pings);
    clearTimeout(timer);
  });
}
