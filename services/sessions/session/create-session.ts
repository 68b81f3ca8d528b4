import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/events/v1/records_pb.js';
import {
  type CreateSessionRequest,
  CreateSessionRequestSchema,
  type Session,
  SessionSchema,
  SessionState,
} from '../../../gen/assay/v1/session_pb.js';
import { DomainError, isReason } from '../../shared/domain-error.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { Limits } from '../config.ts';
import { checkDuration } from '../validation/field.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { offering } from './network-offer.ts';
import { placementOrder } from './placement.ts';
import { requestDigest } from './request-digest.ts';
import type { SandboxStart } from './sandbox-start.ts';
import type { SessionDirectory } from './session-directory.ts';
import { makeSessionId, sessionIdOfRequest } from './session-id.ts';
import { endedError } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';
import type { WarmStart } from './warm-start.ts';

export interface SessionCreatorDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly start: SandboxStart;
  readonly warmStart: WarmStart;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** Makes sessions. The signal ends the wait, never the making. */
export type SessionCreator = (project: string, request: CreateSessionRequest, signal: AbortSignal) => Promise<Session>;

export function createSessionCreator(deps: SessionCreatorDeps): SessionCreator {
  const { sessions, workers, start, limits } = deps;
  /** Sessions between their quota check and their record, so that a burst does not pass the quota together. */
  const arriving = new Map<string, number>();

  /** No await between the count and the claim: of two that come together the second sees the first. */
  const claim = (project: string, records: readonly SessionRecord[]): void => {
    const live = records.filter((record) => !isTerminal(sessionOf(record).state)).length;
    const others = arriving.get(project) ?? 0;
    if (live + others >= limits.sessionsPerProject) throw quotaError(live + others, limits.sessionsPerProject);
    arriving.set(project, others + 1);
  };
  const giveBack = (project: string): void => {
    const others = (arriving.get(project) ?? 1) - 1;
    if (others > 0) arriving.set(project, others);
    else arriving.delete(project);
  };
  const record = async (project: string, request: CreateSessionRequest, id: string): Promise<SessionRecord> => {
    claim(project, await sessions.ofProject(project));
    try {
      const worker = placementOrder(offering(workers.all(), request.network), start.promised)[0];
      if (worker === undefined) throw new DomainError('NO_WORKER', 'no worker is there to take a session');
      const made = newRecord(project, request, id, worker.workerId, deps);
      const warm = await deps.warmStart(worker, made);
      return warm ?? (await sessions.create(made)) ?? checkSame(await sessions.fresh(project, id), made.requestDigest);
    } finally {
      giveBack(project);
    }
  };

  /** Most requests are new, and one that is not meets its record when it writes its own; the store is asked if that fails. */
  const found = async (project: string, request: CreateSessionRequest): Promise<SessionRecord> => {
    const id = idOf(project, request);
    const again = async (): Promise<SessionRecord> =>
      checkSame(await sessions.fresh(project, id), requestDigest(CreateSessionRequestSchema, request));
    if (sessions.peek(project, id) !== undefined) return again();
    try {
      return await record(project, request, id);
    } catch (error) {
      if (request.requestId === '' || !(await exists(sessions, project, id))) throw error;
      return again();
    }
  };

  return async (project, request, signal) => {
    const made = await found(project, request);
    const waiting = sessionOf(made).state === SessionState.CREATING;
    const settled = sessionOf(waiting ? await start.settled(made, signal) : made);
    if (settled.state === SessionState.FAILED) throw failedError(settled);
    // Closed while it was being made: there never was a session to answer with. One that was READY once is the answer.
    if (waiting && settled.state !== SessionState.READY) throw endedError(settled);
    return settled;
  };
}

function idOf(project: string, { requestId }: CreateSessionRequest): string {
  return requestId === '' ? makeSessionId() : sessionIdOfRequest(project, requestId);
}

async function exists(sessions: SessionDirectory, project: string, sessionId: string): Promise<boolean> {
  try {
    await sessions.fresh(project, sessionId);
    return true;
  } catch {
    return false;
  }
}

function checkSame(found: SessionRecord, digest: Uint8Array): SessionRecord {
  if (Buffer.compare(found.requestDigest, digest) === 0) return found;
  const id = sessionOf(found).sessionId;
  const message = `request_id: another request made session ${id} with it; choose a new request_id`;
  throw new DomainError('REQUEST_ID_REUSED', message, { field: 'request_id', session_id: id });
}

function newRecord(
  project: string,
  request: CreateSessionRequest,
  sessionId: string,
  workerId: string,
  { limits, nowMs }: SessionCreatorDeps,
): SessionRecord {
  const { requestId } = request;
  const now = nowMs();
  const ttlMs =
    request.ttl === undefined ? limits.defaultTtlMs : checkDuration('ttl', request.ttl, 1_000, limits.ttlMs);
  const session = create(SessionSchema, {
    sessionId,
    state: SessionState.CREATING,
    image: request.image,
    labels: request.labels,
    env: request.env,
    createTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + ttlMs),
    workerId,
    ...(request.limits === undefined ? {} : { limits: request.limits }),
    ...(request.idleTimeout === undefined ? {} : { idleTimeout: request.idleTimeout }),
    ...(request.network === undefined ? {} : { network: request.network }),
  });
  const requestDigestBytes = requestId === '' ? new Uint8Array() : requestDigest(CreateSessionRequestSchema, request);
  return create(SessionRecordSchema, {
    project,
    session,
    requestDigest: requestDigestBytes,
    activeTime: timestampFromMs(now),
  });
}

function quotaError(count: number, limit: number): DomainError {
  const message = `the project has ${count} live sessions, the limit (sessions_per_project); close one and try again`;
  return new DomainError('SESSION_QUOTA', message, { limit: String(limit) });
}

function failedError({ sessionId, reason, message }: Session): DomainError {
  const text = `session ${sessionId} could not be made (${reason}): ${message}`;
  const metadata = { session_id: sessionId, session_reason: reason };
  return new DomainError(isReason(reason) ? reason : 'SESSION_FAILED', text, metadata);
}
