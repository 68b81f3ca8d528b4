import { randomUUID } from 'node:crypto';
import { createClient } from '@connectrpc/connect';
import { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { SessionService, SessionState } from '../../gen/assay/v1/session_pb.js';
import { ShellService } from '../../gen/assay/v1/shell_pb.js';
import { type Caller, present } from './caller.ts';
import type { Connection } from './connection.ts';
import { enumValue } from './enum-word.ts';
import { createEventStreams } from './event-streams.ts';
import { createExecutions } from './executions.ts';
import { type SampleName, toWireName } from './samples.ts';
import { createSessionHandle, type Session } from './session.ts';
import {
  type Network,
  type ResourceLimits,
  type SessionInfo,
  type SessionStateName,
  toSessionInfo,
  toWireLimits,
  toWireNetwork,
} from './session-info.ts';
import { createSessionLog } from './session-log.ts';
import { createShells } from './shells.ts';
import { toDuration } from './time.ts';
import type { Verifications } from './verifications.ts';

export interface CreateSessionOptions {
  /** An image that the worker's engine has. Absent: the server's base image. */
  image?: string;
  /**
   * The sample to make it from, with its code in place; limits and variables are the sample's, unless they are given. An
   * image that was never built is built first, which may take minutes: `samples.build` shows it.
   */
  sample?: SampleName;
  labels?: Readonly<Record<string, string>>;
  limits?: ResourceLimits;
  /** Variables for every execution. */
  env?: Readonly<Record<string, string>>;
  ttlMs?: number;
  idleTimeoutMs?: number;
  /** What the session can reach. Absent: nothing. */
  network?: Network;
  /** The same id again returns the first session. Random if absent, so that a retry makes no second session. */
  requestId?: string;
}

export interface ListSessionsOptions {
  /** Only sessions in these states. Absent: all. */
  states?: readonly SessionStateName[];
  /** Only sessions that carry all of these labels. */
  labels?: Readonly<Record<string, string>>;
}

export interface Sessions {
  /** Makes a session; it is READY when the promise resolves. */
  create(options?: CreateSessionOptions): Promise<Session>;
  /** A handle on a session that exists, live or ended. */
  get(id: string): Promise<Session>;
  /** The project's sessions, newest first, page by page. */
  list(options?: ListSessionsOptions): AsyncIterable<SessionInfo>;
}

export function createSessions(connection: Connection, caller: Caller, verifications: Verifications): Sessions {
  const rpc = createClient(SessionService, connection.transport);
  const executionRpc = createClient(ExecutionService, connection.transport);
  const shellRpc = createClient(ShellService, connection.transport);
  const streams = createEventStreams(connection);

  function handle(info: SessionInfo): Session {
    const executions = createExecutions(executionRpc, streams, caller, info.id);
    const shells = createShells(shellRpc, caller, executions, info.id);
    const log = createSessionLog(rpc, executionRpc, caller, info.id);
    return createSessionHandle(rpc, caller, { executions, shells, log, verifications }, info, handle);
  }

  return {
    async create(options = {}) {
      const request = { requestId: options.requestId ?? randomUUID(), ...toCreateFields(options) };
      const answer = await caller.repeatable(() => rpc.createSession(request));
      return handle(toSessionInfo(present(answer.session, 'the session')));
    },
    async get(sessionId) {
      const answer = await caller.repeatable(() => rpc.getSession({ sessionId }));
      return handle(toSessionInfo(present(answer.session, 'the session')));
    },
    async *list(options = {}) {
      const states = (options.states ?? []).map((name) => enumValue(SessionState, name, 'states'));
      let pageToken = '';
      do {
        const query = { states, labels: { ...options.labels }, pageToken };
        const page = await caller.repeatable(() => rpc.listSessions(query));
        yield* page.sessions.map(toSessionInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
  };
}

function toCreateFields(options: CreateSessionOptions) {
  const { ttlMs, idleTimeoutMs, limits, network, sample } = options;
  return {
    ...(sample && { sample: toWireName(sample) }),
    image: options.image ?? '',
    labels: { ...options.labels },
    env: { ...options.env },
    ...(limits === undefined ? {} : { limits: toWireLimits(limits) }),
    ...(network === undefined ? {} : { network: toWireNetwork(network) }),
    ...(ttlMs === undefined ? {} : { ttl: toDuration('ttlMs', ttlMs) }),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeout: toDuration('idleTimeoutMs', idleTimeoutMs) }),
  };
}
