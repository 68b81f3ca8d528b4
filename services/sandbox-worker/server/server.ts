import { timingSafeEqual } from 'node:crypto';
import {
  createServer,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Interceptor } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { ShellService } from '../../../gen/assay/v1/shell_pb.js';
import { isBrokenStream } from '../../shared/broken-stream.ts';
import { createConnectionRouter } from '../../shared/connection-router.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { toConnectError } from '../../shared/rpc-error.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { Meter } from '../meter.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import type { SessionSealer } from '../verification/session-sealer.ts';
import { refuse } from './event-stream.ts';
import { createExecutionCalls } from './execution-calls.ts';
import { createHotStreams } from './hot-streams.ts';
import { createLines } from './lines.ts';
import type { SampleCallDeps } from './sample-calls.ts';
import { createShellCalls } from './shell-calls.ts';
import { createUnaryCalls, type ServedCalls } from './unary-calls.ts';
import { createWorkerService } from './worker-service.ts';

const streamWindowBytes = 1_048_576;
const connectionWindowBytes = 8 * 1_048_576;
const requestLimit = 4 * 1_048_576;
const connectionLimit = 20_000;

export interface WorkerServer {
  readonly address: string;
  /** Takes no new calls and closes what is open. */
  close(): Promise<void>;
}

/** The worker's gRPC port. The sessions service is its only client, and shows the token on every call. */
export async function serveWorker(
  listen: { host: string; port: number },
  token: string,
  sandboxes: Sandboxes,
  samples: SampleCallDeps,
  seal: SessionSealer,
  meter: Meter,
  shares: WorkShares,
  log: Logger,
): Promise<WorkerServer> {
  const mapErrors: Interceptor = (next) => async (request) => {
    const report = (error: unknown): void => {
      // A caller that went away is no failure of the worker's.
      if (!request.signal.aborted || !isBrokenStream(error)) log.error({ err: error }, 'a call failed');
    };
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: mapped(response.message, report) } : response;
    } catch (error) {
      throw toConnectError(error, report);
    }
  };
  const handlers = createWorkerService(sandboxes, samples, seal);
  const rest = connectNodeAdapter({
    routes: (router) => router.service(WorkerService, handlers),
    interceptors: [mapErrors],
    readMaxBytes: requestLimit,
    acceptCompression: [],
    connect: false,
    grpcWeb: false,
  });
  const hot = createHotStreams(sandboxes, meter, shares, log);
  const served: ServedCalls[] = [
    [WorkerService, handlers],
    [ExecutionService, createExecutionCalls(sandboxes)],
    [ShellService, createShellCalls(sandboxes)],
  ];
  const unary = createUnaryCalls(served, sandboxes.projectOf, shares, log);
  const expected = Buffer.from(`Bearer ${token}`);
  const lines = createLines(hot, (given) => authorized(given, expected), log);

  const http2 = createServer({
    settings: { initialWindowSize: streamWindowBytes, maxConcurrentStreams: 10_000 },
    // No limit: what waits for a reader is bounded by each stream, and node never gives back what it has counted for those that were
    // reset. At its limit, 10 MB, it refuses every stream of every project.
    maxSessionMemory: 1_000_000,
    // A sessions service resets a stream for every client of its own that goes away: node would soon hang up on it.
    ...{ streamResetBurst: 100_000, streamResetRate: 10_000 },
  });
  const sessions = new Set<ServerHttp2Session>();
  http2.on('session', (session) => {
    sessions.add(session);
    session.setLocalWindowSize(connectionWindowBytes);
    session.on('close', () => sessions.delete(session));
    session.on('error', () => session.destroy());
  });
  http2.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, raw: string[]) => {
    stream.on('error', () => {});
    if (!authorized(headers.authorization, expected)) {
      refuse(stream, new DomainError('UNAUTHENTICATED', "the worker's token is missing or wrong"), log);
      return;
    }
    const path = String(headers[':path']);
    if (hot.serve(stream, path, headers) || unary(stream, path)) return;
    // biome-ignore lint/suspicious/noExplicitAny: node's types leave the raw headers of this constructor untyped
    rest(new Http2ServerRequest(stream, headers, {}, raw as any), new Http2ServerResponse(stream));
  });
  const server = createConnectionRouter(lines, http2, connectionLimit);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(listen.port, listen.host, () => resolve());
  });
  const { address, port } = server.address() as AddressInfo;

  return {
    address: `${address.includes(':') ? `[${address}]` : address}:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.close();
      lines.closeIdleConnections();
      const force = setTimeout(() => {
        for (const session of sessions) session.destroy();
        lines.closeAllConnections();
      }, 2_000);
      await closed;
      clearTimeout(force);
    },
  };
}

/** What is thrown while a stream runs passes here and nowhere else. */
async function* mapped<T>(messages: AsyncIterable<T>, report: (error: unknown) => void): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw toConnectError(error, report);
  }
}

function authorized(given: string | undefined, expected: Buffer): boolean {
  const bytes = Buffer.from(given ?? '');
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
