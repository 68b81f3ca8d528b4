import { randomUUID } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import type { SessionService, Session as WireSession } from '../../gen/assay/v1/session_pb.js';
import { type Caller, present } from './caller.ts';
import type { Execution } from './execution.ts';
import type { AttachOptions, ExecuteOptions, ExecutionInfo, Executions } from './executions.ts';
import type { Program } from './program.ts';
import { type RunOptions, type RunResult, runProgram } from './run.ts';
import type { SessionEvent, TranscriptEvent } from './session-event.ts';
import {
  type Network,
  type ResourceLimits,
  type SessionInfo,
  toSessionInfo,
  toWireLimits,
  toWireNetwork,
} from './session-info.ts';
import type { FollowOptions, SessionLog, TranscriptOptions } from './session-log.ts';
import type { Shell } from './shell.ts';
import type { ShellInfo } from './shell-info.ts';
import type { OpenShellOptions, Shells } from './shells.ts';
import { toDuration } from './time.ts';
import type { VerificationInfo } from './verification-info.ts';
import type { StartVerificationOptions, Verifications } from './verifications.ts';

export interface UpdateOptions {
  /** The new time to live, counted from now. */
  ttlMs?: number;
  /** The new idle timeout; zero: none. */
  idleTimeoutMs?: number;
  /** Replaces all labels. */
  labels?: Readonly<Record<string, string>>;
}

/** What is to be different in a fork. What is absent is the source's. */
export interface ForkOptions extends UpdateOptions {
  limits?: ResourceLimits;
  network?: Network;
  /** Variables beside or over those of the source. */
  env?: Readonly<Record<string, string>>;
  /** The same id again returns the first fork. Random if absent, so that a retry makes no second fork. */
  requestId?: string;
}

/** A live sandbox. `await using` closes it at the end of the block. */
export interface Session extends AsyncDisposable {
  readonly id: string;
  /** The session as it was when it was last asked about through this handle. */
  readonly info: SessionInfo;
  refresh(): Promise<SessionInfo>;
  /** Runs a command to its end and collects what it writes. */
  run(program: Program, options?: RunOptions): Promise<RunResult>;
  /** Starts a command and streams what it does. */
  execute(program: Program, options?: ExecuteOptions): Execution;
  /** Follows a running or finished execution from any offset. */
  attach(executionId: string, options?: AttachOptions): Execution;
  execution(executionId: string): Promise<ExecutionInfo>;
  /** Every execution, oldest first. */
  executions(): AsyncIterable<ExecutionInfo>;
  /** Opens a shell that keeps its state from command to command. */
  openShell(options?: OpenShellOptions): Promise<Shell>;
  /** A handle on a shell that exists. */
  shell(shellId: string): Promise<Shell>;
  /** Every shell, oldest first. */
  shells(): AsyncIterable<ShellInfo>;
  /**
   * What happens in the session, from its beginning or after a cursor, to its end; also when it has ended already. It
   * reconnects by itself.
   */
  follow(options?: FollowOptions): AsyncGenerator<SessionEvent, void, undefined>;
  /** What its executions, or one of them, did until now. */
  transcript(options?: TranscriptOptions): AsyncGenerator<TranscriptEvent, void, undefined>;
  /** Seals what the session has changed and resolves with the verdict. `client.verifications` has more ways. */
  verify(options?: StartVerificationOptions): Promise<VerificationInfo>;
  update(options: UpdateOptions): Promise<SessionInfo>;
  /** Freezes every process; no execution timeout runs meanwhile. */
  pause(): Promise<SessionInfo>;
  resume(): Promise<SessionInfo>;
  /** A new session with the files that this one has now; no process carries over. */
  fork(options?: ForkOptions): Promise<Session>;
  /** Kills every process and frees everything. Closing a closed session succeeds. */
  close(): Promise<SessionInfo>;
}

/** What a handle does beside the session's own calls. */
export interface SessionParts {
  readonly executions: Executions;
  readonly shells: Shells;
  readonly log: SessionLog;
  readonly verifications: Verifications;
}

export function createSessionHandle(
  rpc: Client<typeof SessionService>,
  caller: Caller,
  { executions, shells, log, verifications }: SessionParts,
  known: SessionInfo,
  handle: (info: SessionInfo) => Session,
): Session {
  let info = known;
  const sessionId = known.id;

  async function learn(call: () => Promise<{ session?: WireSession | undefined }>): Promise<SessionInfo> {
    const answer = await caller.repeatable(call);
    info = toSessionInfo(present(answer.session, 'the session'));
    return info;
  }

  return {
    id: sessionId,
    get info() {
      return info;
    },
    refresh: () => learn(() => rpc.getSession({ sessionId })),
    run: (program, options) => runProgram(executions, program, options),
    execute: executions.execute,
    attach: executions.attach,
    execution: executions.get,
    executions: executions.list,
    openShell: shells.open,
    shell: shells.get,
    shells: shells.list,
    follow: log.follow,
    transcript: log.transcript,
    verify: async (options) => verifications.ended((await verifications.start(sessionId, options)).id),
    update: (options) => learn(() => rpc.updateSession({ sessionId, ...toUpdateFields(options) })),
    pause: () => learn(() => rpc.pauseSession({ sessionId })),
    resume: () => learn(() => rpc.resumeSession({ sessionId })),
    async fork(options = {}) {
      const request = { sessionId, requestId: options.requestId ?? randomUUID(), ...toForkFields(options) };
      const answer = await caller.repeatable(() => rpc.forkSession(request));
      return handle(toSessionInfo(present(answer.session, 'the session')));
    },
    close: () => learn(() => rpc.closeSession({ sessionId })),
    async [Symbol.asyncDispose]() {
      await this.close();
    },
  };
}

function toTimes({ ttlMs, idleTimeoutMs }: UpdateOptions) {
  return {
    ...(ttlMs === undefined ? {} : { ttl: toDuration('ttlMs', ttlMs) }),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeout: toDuration('idleTimeoutMs', idleTimeoutMs) }),
  };
}

function toUpdateFields(options: UpdateOptions) {
  const { ttlMs, idleTimeoutMs, labels } = options;
  const given = { ttl: ttlMs, idle_timeout: idleTimeoutMs, labels };
  const paths = Object.entries(given).flatMap(([path, value]) => (value === undefined ? [] : [path]));
  return { ...toTimes(options), labels: { ...labels }, updateMask: { paths } };
}

function toForkFields(options: ForkOptions) {
  return {
    ...toTimes(options),
    ...(options.labels === undefined ? {} : { labels: { labels: { ...options.labels } } }),
    env: { ...options.env },
    ...(options.limits === undefined ? {} : { limits: toWireLimits(options.limits) }),
    ...(options.network === undefined ? {} : { network: toWireNetwork(options.network) }),
  };
}
