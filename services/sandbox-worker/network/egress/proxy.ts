import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Server, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { HostPattern } from '../../../shared/host-pattern.ts';
import type { Logger } from '../../../shared/log.ts';
import type { WorkShares } from '../../../shared/work-shares.ts';
import { createConnectionLimits } from './connection-limits.ts';
import { forward } from './forward.ts';
import { PacedSocket } from './paced-socket.ts';
import { Refusal, refusalText } from './refusal.ts';
import { admit, openRoute, type RouteDeps, type Traveller } from './route.ts';
import { connectTarget, requestTarget, type Target } from './target.ts';
import { joinSockets } from './tunnel.ts';
import { connectThrough, reach } from './upstream-proxy.ts';

export interface EgressLimits {
  /** Open connections of one session. */
  readonly connections: number;
  /** Open connections of all sessions of one project. */
  readonly projectConnections: number;
  /** Bytes of a request's head. */
  readonly headBytes: number;
  /** For a request's head to arrive, and for a target to answer. */
  readonly waitMs: number;
  /** A connection on which nothing moves for so long is closed. */
  readonly idleMs: number;
}

export interface EgressDeps extends Omit<RouteDeps, 'waitMs'> {
  readonly limits: EgressLimits;
  /** The event loop, between projects. */
  readonly shares: WorkShares;
  readonly log: Logger;
}

/** Whose way out it is, and where to. */
export interface EgressSession {
  readonly project: string;
  readonly sessionId: string;
  readonly allow: readonly HostPattern[];
}

/** The way out of one session. */
export interface EgressGate {
  close(): void;
}

/** The proxy of all sessions. Each has a listener of its own, and with it a list of its own. */
export interface EgressProxy {
  serve(listener: Server, session: EgressSession): EgressGate;
}

const lingerMs = 1_000;

interface Visitor extends Traveller {
  readonly session: EgressSession;
  /** The whole head has arrived. */
  arrived(): void;
}

export function createEgressProxy(deps: EgressDeps): EgressProxy {
  const { limits, shares, log } = deps;
  const routes: RouteDeps = { ...deps, waitMs: limits.waitMs };
  const connections = createConnectionLimits(limits.connections, limits.projectConnections);
  const visitors = new WeakMap<Duplex, Visitor>();
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
    log.debug(
      { session_id: visitor?.session.sessionId, status: refusal.status, refused: refusal.message },
      'egress refused',
    );
    return refusal;
  }

  /** A connection to the target. Everything about it from now on is done in turns of the visitor's project. */
  async function reachTarget(
    visitor: Visitor,
    target: Target,
    through: Parameters<typeof openRoute>[2],
  ): Promise<PacedSocket> {
    const remote = new PacedSocket(await openRoute(routes, target, through, visitor), visitor.turn, limits.idleMs);
    await visitor.turn();
    if (visitor.gone.aborted) remote.destroy();
    if (remote.destroyed) throw new Refusal(502, `host ${target.host} broke off`);
    return remote;
  }

  async function tunnel(incoming: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    let visitor: Visitor | undefined;
    try {
      visitor = visitorOf(incoming);
      const target = connectTarget(incoming.url ?? '');
      admit(visitor.session.allow, target);
      const remote = await reachTarget(visitor, target, connectThrough);
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) remote.write(head);
      joinSockets(client, remote);
    } catch (error) {
      refuse(client, refused(error, visitor));
    }
  }

  async function pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    let visitor: Visitor | undefined;
    try {
      visitor = visitorOf(incoming);
      const target = requestTarget(incoming.url ?? '');
      admit(visitor.session.allow, target);
      const upstream = deps.upstream(target.host);
      const socket = await reachTarget(visitor, target, (proxy, _, ...rest) => reach(proxy, ...rest));
      await forward(incoming, answer, { target, socket, upstream });
    } catch (error) {
      const refusal = refused(error, visitor);
      if (answer.headersSent) incoming.socket.destroy();
      else {
        incoming.resume();
        refuse(incoming.socket, refusal);
      }
    }
  }

  http.on('connect', (incoming, client, head) => void tunnel(incoming, client, head));
  http.on('request', (incoming, answer) => void pass(incoming, answer));
  http.on('clientError', (error: NodeJS.ErrnoException, client) => {
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
    const message = `the request's head is over ${limits.headBytes} bytes`;
    refuse(client, tooLarge ? new Refusal(431, message) : new Refusal(400, 'this is no HTTP/1.1 request'));
  });

  function receive(socket: Socket, session: EgressSession): void {
    const turn = () => shares.turn(session.project);
    const client = new PacedSocket(socket, turn, limits.idleMs);
    const gone = new AbortController();
    const late = setTimeout(() => {
      refuse(client, new Refusal(400, `the request's head did not arrive within ${limits.waitMs} ms`));
    }, limits.waitMs);
    client.on('close', () => {
      clearTimeout(late);
      gone.abort();
    });
    socket.setNoDelay(true);
    visitors.set(client, { session, turn, gone: gone.signal, arrived: () => clearTimeout(late) });
    http.emit('connection', client);
  }

  return {
    serve(listener, session) {
      const { project, sessionId } = session;
      const accepted = connections.of(listener, project);
      listener.on('error', (error) => log.warn({ session_id: sessionId, err: error }, 'an egress listener failed'));
      listener.on('connection', (client) => {
        // The end of what it sends may arrive before the answer is written.
        client.allowHalfOpen = true;
        client.on('error', () => client.destroy());
        const { excess, begun } = accepted.add(client);
        shares.run(project, () => {
          begun();
          if (client.destroyed) return;
          if (excess === undefined) receive(client, session);
          else refuse(client, new Refusal(503, excess));
        });
      });
      return {
        close() {
          listener.close();
          accepted.close();
        },
      };
    },
  };
}

/** Says why and hangs up. What the client still sends is read for a moment, or it might never see the answer. */
function refuse(client: Duplex, refusal: Refusal): void {
  if (!client.writable) {
    client.destroy();
    return;
  }
  client.end(refusalText(refusal));
  client.resume();
  const hangUp = setTimeout(() => client.destroy(), lingerMs);
  client.on('close', () => clearTimeout(hangUp));
}
