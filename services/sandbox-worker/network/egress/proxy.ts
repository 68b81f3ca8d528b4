import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import type { HostPattern } from '../../../shared/host-pattern.ts';
import type { Logger } from '../../../shared/log.ts';
import { forward } from './forward.ts';
import { Refusal, refusalText } from './refusal.ts';
import { admit, openRoute, type RouteDeps } from './route.ts';
import { connectTarget, requestTarget } from './target.ts';
import { joinSockets } from './tunnel.ts';
import { connectThrough, reach } from './upstream-proxy.ts';

export interface EgressLimits {
  /** Open connections of one session. */
  readonly connections: number;
  /** Bytes of a request's head. */
  readonly headBytes: number;
  /** For a request's head to arrive, and for a target to answer. */
  readonly waitMs: number;
  /** A connection on which nothing moves for so long is closed. */
  readonly idleMs: number;
}

export interface EgressDeps extends Omit<RouteDeps, 'waitMs'> {
  readonly limits: EgressLimits;
  readonly log: Logger;
}

/** The way out of one session. */
export interface EgressGate {
  close(): void;
}

/** The proxy of all sessions. Each has a listener of its own, and with it a list of its own. */
export interface EgressProxy {
  serve(listener: Server, sessionId: string, allow: readonly HostPattern[]): EgressGate;
}

const lingerMs = 1_000;

interface Visitor {
  readonly sessionId: string;
  readonly allow: readonly HostPattern[];
  /** Aborted when the client goes away. */
  readonly gone: AbortSignal;
  /** The whole head has arrived. */
  arrived(): void;
}

export function createEgressProxy(deps: EgressDeps): EgressProxy {
  const { limits, log } = deps;
  const routes: RouteDeps = { ...deps, waitMs: limits.waitMs };
  const visitors = new WeakMap<Socket, Visitor>();
  // It never listens: connections are handed to it. One request each, so that nothing of one is read as the next.
  const http = createServer({ maxHeaderSize: limits.headBytes, insecureHTTPParser: false });
  http.maxRequestsPerSocket = 1;

  function visitorOf({ socket, httpVersionMajor }: IncomingMessage): Visitor {
    const visitor = visitors.get(socket);
    if (visitor === undefined) throw new Refusal(400, 'this connection has had its request');
    visitors.delete(socket);
    visitor.arrived();
    if (httpVersionMajor !== 1) throw new Refusal(400, 'this is no HTTP/1.1 request');
    return visitor;
  }

  function refused(error: unknown, visitor: Visitor | undefined): Refusal {
    const refusal =
      error instanceof Refusal ? error : new Refusal(502, 'the proxy failed; the worker log has the details');
    if (refusal !== error) log.error({ err: error }, 'the egress proxy failed');
    log.debug({ session_id: visitor?.sessionId, status: refusal.status, refused: refusal.message }, 'egress refused');
    return refusal;
  }

  async function tunnel(incoming: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    let visitor: Visitor | undefined;
    try {
      visitor = visitorOf(incoming);
      const target = connectTarget(incoming.url ?? '');
      admit(visitor.allow, target);
      const remote = await openRoute(routes, target, connectThrough, visitor.gone);
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) remote.write(head);
      joinSockets(client, remote, limits.idleMs);
    } catch (error) {
      refuse(client, refused(error, visitor));
    }
  }

  async function pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    let visitor: Visitor | undefined;
    try {
      visitor = visitorOf(incoming);
      const target = requestTarget(incoming.url ?? '');
      admit(visitor.allow, target);
      const upstream = deps.upstream(target.host);
      const socket = await openRoute(routes, target, (proxy, _, ...rest) => reach(proxy, ...rest), visitor.gone);
      await forward(incoming, answer, { target, socket, upstream, idleMs: limits.idleMs });
    } catch (error) {
      const refusal = refused(error, visitor);
      if (answer.headersSent) incoming.socket.destroy();
      else {
        incoming.resume();
        refuse(incoming.socket, refusal);
      }
    }
  }

  http.on('connect', (incoming, client, head) => void tunnel(incoming, client as Socket, head));
  http.on('request', (incoming, answer) => void pass(incoming, answer));
  http.on('clientError', (error: NodeJS.ErrnoException, client) => {
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
    const message = `the request's head is over ${limits.headBytes} bytes`;
    refuse(client as Socket, tooLarge ? new Refusal(431, message) : new Refusal(400, 'this is no HTTP/1.1 request'));
  });

  function receive(client: Socket, sessionId: string, allow: readonly HostPattern[]): void {
    const gone = new AbortController();
    const late = setTimeout(() => {
      refuse(client, new Refusal(400, `the request's head did not arrive within ${limits.waitMs} ms`));
    }, limits.waitMs);
    client.on('close', () => {
      clearTimeout(late);
      gone.abort();
    });
    client.on('error', () => client.destroy());
    client.setTimeout(limits.idleMs, () => client.destroy());
    client.setNoDelay(true);
    visitors.set(client, { sessionId, allow, gone: gone.signal, arrived: () => clearTimeout(late) });
    http.emit('connection', client);
  }

  return {
    serve(listener, sessionId, allow) {
      const open = new Set<Socket>();
      listener.on('error', (error) => log.warn({ session_id: sessionId, err: error }, 'an egress listener failed'));
      listener.on('connection', (client) => {
        open.add(client);
        client.on('close', () => open.delete(client));
        if (open.size <= limits.connections) return receive(client, sessionId, allow);
        client.on('error', () => client.destroy());
        refuse(client, new Refusal(503, `the session has ${limits.connections} connections open, as many as it may`));
      });
      return {
        close() {
          listener.close();
          for (const client of open) client.destroy();
        },
      };
    },
  };
}

/** Says why and hangs up. What the client still sends is read for a moment, or it might never see the answer. */
function refuse(client: Socket, refusal: Refusal): void {
  if (!client.writable) {
    client.destroy();
    return;
  }
  client.end(refusalText(refusal));
  client.resume();
  const hangUp = setTimeout(() => client.destroy(), lingerMs);
  client.on('close', () => clearTimeout(hangUp));
}
