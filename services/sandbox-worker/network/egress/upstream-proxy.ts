import type { Socket } from 'node:net';
import { connectTo } from './connection.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './target.ts';

/** A proxy that the worker itself needs to reach the outside. */
export interface UpstreamProxy {
  readonly host: string;
  readonly port: number;
  /** The value of Proxy-Authorization. */
  readonly authorization: string | undefined;
}

const headBytes = 16_384;

/** What the usual variables say: which proxy stands before a host. Throws where one of them is no http:// URL. */
export function upstreamFrom(
  env: Readonly<Record<string, string | undefined>>,
): (host: string) => UpstreamProxy | undefined {
  const url = env.HTTPS_PROXY || env.https_proxy || env.HTTP_PROXY || env.http_proxy;
  if (!url) return () => undefined;
  const upstream = parseUpstream(url);
  const direct = (env.NO_PROXY || env.no_proxy || '').toLowerCase().split(',');
  const names = direct.map((name) => name.trim().replace(/^\*?\./, '')).filter((name) => name !== '');
  const isDirect = (host: string) => names.some((name) => name === '*' || host === name || host.endsWith(`.${name}`));
  return (host) => (isDirect(host) ? undefined : upstream);
}

function parseUpstream(text: string): UpstreamProxy {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (url === null || url.protocol !== 'http:' || url.hostname === '') {
    // The text may hold a password.
    throw new Error('HTTPS_PROXY or HTTP_PROXY: expected http://host:port, which is all that sessions can go through');
  }
  const user = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 80),
    authorization: user === ':' ? undefined : `Basic ${Buffer.from(user).toString('base64')}`,
  };
}

/** A connection to the proxy itself, for a request in absolute form. */
export function reach({ host, port }: UpstreamProxy, waitMs: number, signal: AbortSignal): Promise<Socket> {
  return connectTo(host, port, waitMs, signal).catch((error: Error) => {
    throw new Refusal(502, `the worker's own proxy could not be reached: ${error.message}`);
  });
}

/** A connection to the target through another proxy's CONNECT. */
export async function connectThrough(
  upstream: UpstreamProxy,
  { host, port }: Target,
  waitMs: number,
  signal: AbortSignal,
): Promise<Socket> {
  const socket = await reach(upstream, waitMs, signal);
  const credentials = upstream.authorization === undefined ? '' : `Proxy-Authorization: ${upstream.authorization}\r\n`;
  socket.write(`CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n${credentials}\r\n`);
  try {
    const status = await answerOf(socket, waitMs, signal);
    if (/^HTTP\/1\.[01] 2\d\d\b/.test(status)) return socket;
    const said = status.slice(0, 80).replace(/[^\x20-\x7e]/g, '?');
    throw new Refusal(502, `the worker's own proxy does not let host ${host}:${port} through: ${said}`);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** The status line; what follows the head is left in the socket. */
function answerOf(socket: Socket, waitMs: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    let got = Buffer.alloc(0);
    const finish = (run: () => void): void => {
      clearTimeout(late);
      signal.removeEventListener('abort', broken);
      socket.off('readable', read).off('end', broken).off('close', broken);
      run();
    };
    const broken = (): void => finish(() => reject(new Refusal(502, "the worker's own proxy broke off")));
    const late = setTimeout(broken, waitMs);
    const read = (): void => {
      for (let chunk = socket.read() as Buffer | null; chunk !== null; chunk = socket.read() as Buffer | null) {
        got = Buffer.concat([got, chunk]);
        const end = got.indexOf('\r\n\r\n');
        if (end < 0 && got.length <= headBytes) continue;
        if (end < 0) {
          broken();
          return;
        }
        const rest = got.subarray(end + 4);
        finish(() => {
          if (rest.length > 0) socket.unshift(rest);
          resolve(got.subarray(0, got.indexOf('\r\n')).toString('latin1'));
        });
        return;
      }
    };
    signal.addEventListener('abort', broken);
    socket.on('readable', read).on('end', broken).on('close', broken);
  });
}
