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
import { notePeer } from '../rpc/peer.ts';
import type { CloseReason, Connection } from './connection-table.ts';
import { refuseStream } from './refused-call.ts';

/** What one stream, and all streams of a connection together, may send ahead of what is read. */
const streamWindowBytes = 1_048_576;
const connectionWindowBytes = 8 * 1_048_576;
/** The same, and how many streams, before the connection has brought a valid key: what nobody reads yet is held. */
const unprovenWindowBytes = 65_535;
const unprovenStreams = 100;
const pingEveryMs = 20_000;
const pingTimeoutMs = 15_000;
/** The highest number that a stream can have, and how long streams that were begun unaware of a GOAWAY may come. */
const lastStream = 2 ** 31 - 1;
const lastStreamsMs = 1_000;

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
  connectionOf: (session: ServerHttp2Session) => Connection,
): SessionsHttp2Server {
  const server = createServer({
    settings: {
      initialWindowSize: unprovenWindowBytes,
      maxConcurrentStreams: Math.min(unprovenStreams, maxConcurrentStreams),
      enablePush: false,
    },
    // In megabytes: what is queued to a client that reads slowly counts, on all of its streams together.
    maxSessionMemory: 128,
    maxHeaderListPairs: 128,
  });
  const sessions = new Map<ServerHttp2Session, Connection>();
  server.on('session', (session) => {
    const connection = connectionOf(session);
    sessions.set(session, connection);
    session.on('error', () => session.destroy());
    session.once('close', () => sessions.delete(session));
    const widen = (): void => {
      if (session.destroyed) return;
      session.settings({ initialWindowSize: streamWindowBytes, maxConcurrentStreams });
      session.setLocalWindowSize(connectionWindowBytes);
    };
    connection.onProven(widen);
    connection.closeBy(closingOf(session));
    notePeer(session, connection);
    keepAlive(session);
  });
  server.on('sessionError', () => {});
  server.on('stream', (stream, headers, _flags, rawHeaders) => {
    stream.on('error', () => {});
    const connection = stream.session && sessions.get(stream.session as ServerHttp2Session);
    if (connection?.refusal !== undefined) return refuseStream(stream, headers, connection.refusal);
    if (connection !== undefined) stream.once('close', connection.begin());
    const path = paths.find(({ takes }) => takes(headers));
    if (path !== undefined) return path.serve(stream, headers);
    const request = new Http2ServerRequest(stream, headers, {}, rawHeaders as unknown as readonly string[]);
    handler(request, new Http2ServerResponse(stream));
  });
  return {
    server,
    goAway() {
      for (const session of sessions.keys()) if (!session.destroyed) session.goaway(constants.NGHTTP2_NO_ERROR);
    },
    destroyAll() {
      for (const session of sessions.keys()) session.destroy();
    },
  };
}

/** How the table of connections closes this one. */
function closingOf(session: ServerHttp2Session): (reason: CloseReason) => void {
  return (reason) => {
    if (session.destroyed) return;
    if (reason === 'evicted') {
      session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from('the server has too many connections'));
      session.destroy();
      return;
    }
    // All streams that are on their way are still served; the second GOAWAY, a little later, ends that.
    session.goaway(constants.NGHTTP2_NO_ERROR, lastStream);
    const timer = setTimeout(() => session.close(), lastStreamsMs);
    session.once('close', () => clearTimeout(timer));
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
