import { type ClientHttp2Session, connect } from 'node:http2';
import { DomainError } from '../../shared/domain-error.ts';

/** One kept HTTP/2 connection to every worker that is in use. */
export interface WorkerLinks {
  /** Rejects with WORKER_UNREACHABLE. */
  open(address: string): Promise<ClientHttp2Session>;
  /** How many there are. */
  readonly size: number;
  close(): void;
}

const connectTimeoutMs = 3_000;
const pingEveryMs = 10_000;
const pingTimeoutMs = 5_000;
/** A stream's window bounds what is held for a reader that stalls; the connection's window is for all together. */
const streamWindowBytes = 1_048_576;
const connectionWindowBytes = 8 * 1_048_576;

export function createWorkerLinks(): WorkerLinks {
  const links = new Map<string, Promise<ClientHttp2Session>>();
  const drop = (address: string, link: Promise<ClientHttp2Session>): void => {
    if (links.get(address) === link) links.delete(address);
  };
  return {
    get size() {
      return links.size;
    },
    open(address) {
      const kept = links.get(address);
      if (kept !== undefined) return kept;
      const link = connectTo(address);
      links.set(address, link);
      link.then(
        (session) => {
          session.once('close', () => drop(address, link));
          session.once('goaway', () => drop(address, link));
        },
        () => drop(address, link),
      );
      return link;
    },
    close() {
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

export function workerUnreachable(address: string, cause: unknown, metadata: Record<string, string> = {}): DomainError {
  const said = cause instanceof Error ? cause.message : String(cause);
  const message = `the session's worker at ${address} cannot be reached (${said}); try again`;
  return new DomainError('WORKER_UNREACHABLE', message, metadata, { cause });
}

function connectTo(address: string): Promise<ClientHttp2Session> {
  return new Promise((resolve, reject) => {
    let session: ClientHttp2Session;
    try {
      session = connect(`http://${address}`, {
        settings: { initialWindowSize: streamWindowBytes, enablePush: false },
        maxSessionMemory: 256,
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
