import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectSecurely, getCACertificates } from 'node:tls';

export interface SocketOptions {
  /** Certificates of authorities, as PEM. */
  ca: readonly string[] | undefined;
  /** How long the server may take to accept it, with its TLS. */
  openingMs: number;
}

/** Opens the socket of an HTTP/2 connection. An address that swallows every packet would else be waited for minutes. */
export function openSocket(endpoint: URL, { ca, openingMs }: SocketOptions): Socket {
  const host = endpoint.hostname.replace(/^\[(.*)\]$/, '$1');
  const secure = endpoint.protocol === 'https:';
  const address = { host, port: Number(endpoint.port || (secure ? 443 : 80)) };
  const socket = secure
    ? connectSecurely({
        ...address,
        ...(isIP(host) ? {} : { servername: host }),
        ALPNProtocols: ['h2'],
        ...trusting(ca),
      })
    : connectPlain(address);
  const failure = { code: 'ETIMEDOUT', syscall: 'connect' };
  const late = setTimeout(
    () => socket.destroy(Object.assign(new Error(`no connection after ${openingMs} ms`), failure)),
    openingMs,
  );
  const done = () => clearTimeout(late);
  socket.once(secure ? 'secureConnect' : 'connect', done).once('close', done);
  return socket;
}

/** Beside the authorities that node knows, not instead of them. */
function trusting(ca: readonly string[] | undefined): { ca?: string[] } {
  return ca === undefined ? {} : { ca: [...getCACertificates('default'), ...ca] };
}
