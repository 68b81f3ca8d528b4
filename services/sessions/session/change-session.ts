import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import {
  type Session,
  SessionEndReason,
  SessionSchema,
  SessionState,
  type UpdateSessionRequest,
} from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { advance, isTerminal } from '../../shared/session-state.ts';
import { checkDuration } from '../validation/field.ts';
import { updatedFields } from '../validation/session-request.ts';
import type { CallOptions, WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { explainError } from './explain-error.ts';
import type { SessionDirectory } from './session-directory.ts';
import { endedError, refusalOf, unreachableError } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';

/** Changes of a session after it was made. Each resolves with the record as it is then. */
export interface SessionChanges {
  update(project: string, request: UpdateSessionRequest, signal: AbortSignal): Promise<SessionRecord>;
  pause(project: string, sessionId: string, signal: AbortSignal): Promise<SessionRecord>;
  resume(project: string, sessionId: string, signal: AbortSignal): Promise<SessionRecord>;
  close(project: string, sessionId: string, signal: AbortSignal): Promise<SessionRecord>;
}

export interface SessionChangesDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly maxTtlMs: number;
  readonly nowMs: () => number;
}

const callTimeoutMs = 30_000;

export function createSessionChanges(deps: SessionChangesDeps): SessionChanges {
  const { sessions, client, nowMs } = deps;
  const { closeSandbox, pauseSandbox, resumeSandbox, refreshSandbox } = WorkerService.method;
  type Call = (
    address: string,
    sandbox: { project: string; sessionId: string },
    options: CallOptions,
  ) => Promise<unknown>;
  const close: Call = (address, sandbox, options) => client.call(address, closeSandbox, sandbox, options);
  const pause: Call = (address, sandbox, options) => client.call(address, pauseSandbox, sandbox, options);
  const resume: Call = (address, sandbox, options) => client.call(address, resumeSandbox, sandbox, options);
  const refresh: Call = (address, sandbox, options) => client.call(address, refreshSandbox, sandbox, options);

  const tellWorker = async (
    record: SessionRecord,
    call: Call,
    ifSilent: string,
    signal: AbortSignal,
  ): Promise<void> => {
    const { sessionId, workerId } = sessionOf(record);
    const worker = await deps.workers.find(workerId);
    if (worker === undefined || !worker.reachable) throw unreachableError(sessionId, workerId, ifSilent);
    const message = { project: record.project, sessionId };
    try {
      await call(worker.record.address, message, { timeoutMs: callTimeoutMs, signal });
    } catch (error) {
      const gone = error instanceof DomainError && error.reason === 'WORKER_UNREACHABLE';
      if (gone) throw unreachableError(sessionId, workerId, ifSilent);
      throw await explainError(sessions, record.project, sessionId, error);
    }
  };
  const freeze = async (project: string, sessionId: string, call: Call, signal: AbortSignal) => {
    const record = await sessions.fresh(project, sessionId);
    const refusal = refusalOf(sessionOf(record));
    if (refusal !== undefined) throw refusal;
    await tellWorker(record, call, 'try again when it is back', signal);
    return sessions.fresh(project, sessionId);
  };
  return {
    async update(project, request, signal) {
      const { sessionId } = request;
      const record = await sessions.update(project, sessionId, (found) => {
        const session = sessionOf(found);
        if (isTerminal(session.state) || session.state === SessionState.CLOSING) throw endedError(session);
        return withSession(found, changed(session, request, nowMs(), deps.maxTtlMs));
      });
      if (sessionOf(record).state === SessionState.READY) {
        await tellWorker(record, refresh, 'the change is recorded and takes effect when it is back', signal);
      }
      return record;
    },
    pause: (project, sessionId, signal) => freeze(project, sessionId, pause, signal),
    resume: (project, sessionId, signal) => freeze(project, sessionId, resume, signal),
    async close(project, sessionId, signal) {
      const record = await sessions.update(project, sessionId, (found) => {
        const event = {
          type: 'closing',
          endReason: SessionEndReason.CLOSED_BY_CALLER,
          message: 'CloseSession was called',
        } as const;
        const next = advance(sessionOf(found), event);
        return next === undefined ? undefined : withSession(found, next);
      });
      if (isTerminal(sessionOf(record).state)) return record;
      await tellWorker(record, close, 'the session is CLOSING and will be closed when it is back', signal);
      return sessions.fresh(project, sessionId);
    },
  };
}

function changed(session: Session, request: UpdateSessionRequest, nowMs: number, maxTtlMs: number): Session {
  const next: Session = { ...create(SessionSchema, session) };
  const fields = updatedFields(request);
  if (fields.has('ttl') && request.ttl !== undefined) {
    next.expireTime = timestampFromMs(nowMs + checkDuration('ttl', request.ttl, 1_000, maxTtlMs));
  }
  if (fields.has('labels')) next.labels = request.labels;
  if (!fields.has('idle_timeout')) return next;
  const idle = request.idleTimeout;
  if (idle === undefined || (idle.seconds === 0n && idle.nanos === 0)) delete next.idleTimeout;
  else next.idleTimeout = idle;
  return next;
}

function withSession(record: SessionRecord, session: Session): SessionRecord {
  return { ...create(SessionRecordSchema, record), session };
}
