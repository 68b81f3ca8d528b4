import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { DomainError } from '../../shared/domain-error.ts';

/** How much a worker may send ahead on one stream. All streams of an HTTP/2 connection have the same window. */
export type StreamWindow = 'wide' | 'narrow';

/** One kept HTTP/2 connection for each window to every worker that is in use. */
export interface WorkerLinks {
  /** Rejects with WORKER_UNREACHABLE. */
  open(address: string, window?: StreamWindow): Promise<ClientHttp2Session>;
  /**
   * Looks at how a new stream of a link ends. A link that refuses streams is retired, though its pings are answered: the next open()
   * makes another, and the retired link is closed when its streams are over.
   */
  watch(session: ClientHttp2Session, stream: ClientHttp2Stream): void;
  /** Whether another link takes the place of this one. */
  isRetired(session: ClientHttp2Session): boolean;
  /** How many there are. */
  readonly size: number;
  close(): void;
}

const connectTimeoutMs = 3_000;
const pingEveryMs = 10_000;
const pingTimeoutMs = 5_000;
/** A stream's window bounds what is held for a reader that stalls; the connection's window is for all that is on its way. */
const streamWindowBytes: Readonly<Record<StreamWindow, number>> = { wide: 1_048_576, narrow: 65_536 };
const connectionWindowBytes = 8 * 1_048_576;
/** Retired links to one worker that still have streams. At so many it is the worker that refuses, and no further link would help. */
const mostRetired = 4;
const refusals: ReadonlySet<number> = new Set([constants.NGHTTP2_ENHANCE_YOUR_CALM, constants.NGHTTP2_REFUSED_STREAM]);

export function createWorkerLinks(): WorkerLinks {
  /** By window and address. */
  const links = new Map<string, Promise<ClientHttp2Session>>();
  const drop = (name: string, link: Promise<ClientHttp2Session>): void => {
    if (links.get(name) === link) links.delete(name);
  };
  const known = new WeakMap<ClientHttp2Session, { name: string; link: Promise<ClientHttp2Session> }>();
  /** By window and address, those that still have streams. */
  const retired = new Map<string, Set<ClientHttp2Session>>();
  const replaced = new WeakSet<ClientHttp2Session>();
  const retire = (session: ClientHttp2Session): void => {
    const found = known.get(session);
    if (found === undefined || links.get(found.name) !== found.link || session.closed) return;
    const others = retired.get(found.name) ?? new Set();
    if (others.size >= mostRetired) return;
    retired.set(found.name, others.add(session));
    replaced.add(session);
    drop(found.name, found.link);
    session.once('close', () => {
      others.delete(session);
      if (others.size === 0 && retired.get(found.name) === others) retired.delete(found.name);
    });
    session.close();
  };
  return {
    get size() {
      return links.size;
    },
    open(address, window = 'wide') {
      const name = `${window} ${address}`;
      const kept = links.get(name);
      if (kept !== undefined) return kept;
      const link = connectTo(address, streamWindowBytes[window]);
      links.set(name, link);
      link.then(
        (session) => {
          known.set(session, { name, link });
          session.once('close', () => drop(name, link));
          session.once('goaway', () => drop(name, link));
        },
        () => drop(name, link),
      );
      return link;
    },
    watch(session, stream) {
      stream.once('close', () => {
        if (isRefused(stream)) retire(session);
      });
    },
    isRetired: (session) => replaced.has(session),
    close() {
      for (const session of [...retired.values()].flatMap((sessions) => [...sessions])) session.destroy();
      for (const link of links.values()) {
        link.then(
          (session) => session.destroy(),
          () => {},
        );
      }
      links.clear();
    },
  };
}

/** Whether a stream that is closed was never taken by its worker. */
export function isRefused({ rstCode }: ClientHttp2Stream): boolean {
  return rstCode !== undefined && refusals.has(rstCode);
}

export function workerUnreachable(address: string, cause: unknown, metadata: Record<string, string> = {}): DomainError {
  const said = cause instanceof Error ? cause.message : String(cause);
  const message = `the session's worker at ${address} cannot be reached (${said}); try again`;
  return new DomainError('WORKER_UNREACHABLE', message, metadata, { cause });
}

function connectTo(address: string, windowBytes: number): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    let session: ClientHttp2Session;
    try {
      session = connect(`http://${address}`, {
        settings: { initialWindowSize: windowBytes, enablePush: false },
        // No limit: what waits for a reader is bounded by each stream, and node never gives back what it has counted for those
        // that were reset. At its limit it refuses every stream of every project.
        maxSessionMemory: 1_000_000,
      });
    } catch (error) {
      reject(workerUnreachable(address, error));
      return;
    }
    const timer = setTimeout(() => session.destroy(new Error(`no answer in ${connectTimeoutMs} ms`)), connectTimeoutMs);
    session.on('error', (error) => reject(workerUnreachable(address, error)));
    session.once('close', () => {
      clearTimeout(timer);
      reject(workerUnreachable(address, 'the connection was closed'));
    });
    // Not at 'connect': a listener that is nobody's worker accepts connections too and never sends settings.
    session.once('remoteSettings', () => {
      clearTimeout(timer);
      session.setLocalWindowSize(connectionWindowBytes);
      keepAlive(session);
      resolve(session);
    });
  });
}

/** A worker whose machine vanished sends no end of connection; an unanswered ping is one. */
function keepAlive(session: ClientHttp2Session): void {
  let timer: NodeJS.Timeout | undefined;
  const pings = setInterval(() => {
    clearTimeout(timer);
    timer = setTimeout(() => session.destroy(new Error('a ping was not answered')), pingTimeoutMs);
    const sent = session.ping(() => clearTimeout(timer));
    if (!sent) clearTimeout(timer);
  }, pingEveryMs);
  session.once('close', () => {
    clearInterval(pings);
    clearTimeout(timer);
  });
}
