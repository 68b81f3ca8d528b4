import { type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http';
import { type Duplex, pipeline } from 'node:stream';
import { Refusal } from './refusal.ts';
import type { requestTarget } from './target.ts';
import type { UpstreamProxy } from './upstream-proxy.ts';

/** What belongs to one connection and never travels on. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

export interface Forwarding {
  readonly target: ReturnType<typeof requestTarget>;
  readonly socket: Duplex;
  /** At the other end of the socket, in place of the target. */
  readonly upstream: UpstreamProxy | undefined;
}

/** Sends one request on and its answer back. It is written anew from what was understood, never copied through. */
export function forward(incoming: IncomingMessage, answer: ServerResponse, to: Forwarding): Promise<void> {
  return new Promise((resolve, reject) => {
    const { target, socket, upstream } = to;
    const authority = target.port === 80 ? target.host : `${target.host}:${target.port}`;
    const outgoing = sendRequest({
      createConnection: () => socket,
      method: incoming.method ?? 'GET',
      path: upstream === undefined ? target.path : `http://${authority}${target.path}`,
      headers: [
        'host',
        authority,
        ...endToEnd(incoming.rawHeaders, ['host', 'expect']),
        ...(upstream?.authorization === undefined ? [] : ['proxy-authorization', upstream.authorization]),
        'connection',
        'close',
      ],
    });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(new Refusal(502, `host ${target.host} broke off: ${error.message.replace(/[^\x20-\x7e]/g, '?')}`));
    };
    outgoing.on('error', fail);
    outgoing.on('response', (response) => {
      try {
        const headers = [...endToEnd(response.rawHeaders, []), 'connection', 'close'];
        answer.writeHead(response.statusCode ?? 502, response.statusMessage ?? '', headers);
      } catch (error) {
        return fail(error as Error);
      }
      pipeline(response, answer, () => {
        socket.destroy();
        resolve();
      });
    });
    answer.on('close', () => socket.destroy());
    // Not a pipeline: a target may answer and close before it has read the whole request.
    incoming.on('error', () => socket.destroy());
    incoming.pipe(outgoing);
  });
}

/** The headers that travel on, names and values in turn. */
function endToEnd(raw: readonly string[], without: readonly string[]): string[] {
  const pairs = Array.from({ length: raw.length / 2 }, (_, at) => [raw[2 * at] ?? '', raw[2 * at + 1] ?? ''] as const);
  const named = pairs
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) =>
      value
        .toLowerCase()
        .split(',')
        .map((word) => word.trim()),
    );
  const dropped = new Set([...hopByHop, ...without, ...named]);
  // Framing is the parser's business: a client cannot have it dropped by naming it.
  dropped.delete('content-length');
  return pairs.filter(([name]) => !dropped.has(name.toLowerCase())).flat();
}
