import { clone, create } from '@bufbuild/protobuf';
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  type ForkSessionRequest,
  ForkSessionRequestSchema,
  PauseReason,
  type Session,
  SessionSchema,
  SessionState,
} from '../../../gen/assay/v1/session_pb.js';
import { ResourceLimitsSchema } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import type { Quota } from '../quota.ts';
import { checkEnv } from '../validation/environment.ts';
import { checkDuration, invalid } from '../validation/field.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { isAway } from './placement.ts';
import type { NewSession, RequestOnce } from './request-once.ts';
import type { SandboxStart } from './sandbox-start.ts';
import type { SessionDirectory } from './session-directory.ts';
import { outcomeOf } from './session-outcome.ts';
import { refusalOf, unreachableError } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';

export interface SessionForkerDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: Pick<WorkerClient, 'reach'>;
  readonly once: RequestOnce;
  readonly quota: Quota;
  readonly start: SandboxStart;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** Forks sessions. The signal ends the wait, never the making. */
export type SessionForker = (project: string, request: ForkSessionRequest, signal: AbortSignal) => Promise<Session>;

export function createSessionForker(deps: SessionForkerDeps): SessionForker {
  const { sessions, workers, once, quota, start, client } = deps;

  const sourceOf = async (project: string, sessionId: string): Promise<Session> => {
    const session = sessionOf(await sessions.fresh(project, sessionId));
    const refusal = refusalOf(session);
    if (refusal !== undefined) throw refusal;
    const worker = await workers.find(session.workerId);
    const away = () => unreachableError(sessionId, session.workerId, 'try again when it is back');
    if (!worker?.reachable) throw away();
    if (worker.record.drained) throw drainedError(sessionId, session.workerId);
    // Before there is a record, which would wait for this worker.
    await client.reach(worker.record.address).catch((error) => Promise.reject(isAway(error) ? away() : error));
    if (worker.record.capabilities.includes('fork')) return session;
    const message = `the worker ${session.workerId} of session ${sessionId} cannot fork sessions: it needs root on the host of an overlay2 engine`;
    throw new DomainError('FORK_NOT_OFFERED', message, { session_id: sessionId, worker_id: session.workerId });
  };

  return async (project, request, signal) => {
    const record = await once(project, ForkSessionRequestSchema, request, async (session) => {
      const source = await sourceOf(project, request.sessionId);
      // What can be reached is part of the task, in a copy as well.
      if (source.sample !== undefined && request.network !== undefined) {
        throw invalid('network', 'found one for a session from a sample', "none: it is the sample's");
      }
      return quota(project, session.sessionId, () =>
        sessions.create(forkRecord(project, source, request, session, deps)),
      );
    });
    return outcomeOf(start, record, signal);
  };
}

function drainedError(sessionId: string, workerId: string): DomainError {
  const message = `the worker ${workerId} of session ${sessionId} takes no new sessions, and a fork is made where its source is; type: assay workers undrain ${workerId}`;
  return new DomainError('NO_CAPACITY', message, { session_id: sessionId, worker_id: workerId });
}

/** The source's record with what is different: whatever a session has is inherited, unless it is named here. */
function forkRecord(
  project: string,
  source: Session,
  request: ForkSessionRequest,
  { sessionId, requestDigest }: NewSession,
  { limits, nowMs }: SessionForkerDeps,
): SessionRecord {
  const now = nowMs();
  const session: Session = {
    ...clone(SessionSchema, source),
    sessionId,
    state: SessionState.CREATING,
    forkedFrom: source.sessionId,
    // Why the source stands still is no matter of the copy's; its worker pauses it by itself if need be.
    ...{ paused: false, pauseReason: PauseReason.UNSPECIFIED, message: '' },
    warm: false,
    labels: request.labels?.labels ?? source.labels,
    env: { ...source.env, ...request.env },
    limits: { ...create(ResourceLimitsSchema, source.limits), ...givenLimits(request) },
    createTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + ttlMsOf(source, request, limits)),
    ...(request.network === undefined ? {} : { network: request.network }),
  };
  checkEnv('env', session.env);
  const idle = request.idleTimeout;
  if (idle !== undefined && idle.seconds === 0n && idle.nanos === 0) delete session.idleTimeout;
  else if (idle !== undefined) session.idleTimeout = idle;
  return create(SessionRecordSchema, { project, session, requestDigest, activeTime: timestampFromMs(now) });
}

function givenLimits({ limits }: ForkSessionRequest) {
  return {
    ...(limits?.cpus === undefined ? {} : { cpus: limits.cpus }),
    ...(limits?.memoryBytes === undefined ? {} : { memoryBytes: limits.memoryBytes }),
    ...(limits?.diskBytes === undefined ? {} : { diskBytes: limits.diskBytes }),
    ...(limits?.pids === undefined ? {} : { pids: limits.pids }),
  };
}

/** The span that the source has from its creation to its end, within the limit. */
function ttlMsOf(source: Session, { ttl }: ForkSessionRequest, limits: Limits): number {
  if (ttl !== undefined) return checkDuration('ttl', ttl, 1_000, limits.ttlMs);
  const { createTime, expireTime } = source;
  if (createTime === undefined || expireTime === undefined) return limits.defaultTtlMs;
  return Math.min(timestampMs(expireTime) - timestampMs(createTime), limits.ttlMs);
}
