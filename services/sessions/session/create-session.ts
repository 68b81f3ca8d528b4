import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  type SessionRecord,
  SessionRecordSchema,
  type WorkerRecord,
} from '../../../gen/assay/internal/v1/records_pb.js';
import {
  type CreateSessionRequest,
  CreateSessionRequestSchema,
  type Session,
  SessionSchema,
  SessionState,
} from '../../../gen/assay/v1/session_pb.js';
import type { Limits } from '../config.ts';
import type { Quota } from '../quota.ts';
import { checkDuration } from '../validation/field.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { offering } from './network-offer.ts';
import { isAway, noneAnswers, placementOrder } from './placement.ts';
import type { NewSession, RequestOnce } from './request-once.ts';
import type { SandboxStart } from './sandbox-start.ts';
import type { SessionDirectory } from './session-directory.ts';
import { outcomeOf } from './session-outcome.ts';
import type { SessionPlan, SessionPlanner } from './session-plan.ts';
import type { WarmStart } from './warm-start.ts';

export interface SessionCreatorDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: Pick<WorkerClient, 'reach'>;
  readonly once: RequestOnce;
  readonly quota: Quota;
  readonly start: SandboxStart;
  readonly warmStart: WarmStart;
  readonly plan: SessionPlanner;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** Makes sessions. The signal ends the wait, never the making. */
export type SessionCreator = (project: string, request: CreateSessionRequest, signal: AbortSignal) => Promise<Session>;

export function createSessionCreator(deps: SessionCreatorDeps): SessionCreator {
  const { sessions, workers, once, quota, start, client } = deps;

  /** No record names a worker that was not there: such a session would wait for the worker to come back. */
  const place = async (worker: WorkerRecord, made: SessionRecord): Promise<SessionRecord | undefined> => {
    await client.reach(worker.address);
    return (await deps.warmStart(worker, made)) ?? sessions.create(made);
  };

  return async (project, request, signal) => {
    const record = await once(project, CreateSessionRequestSchema, request, async (session) => {
      const plan = await deps.plan(request);
      return quota(project, session.sessionId, async () => {
        const order = placementOrder(offering(workers.all(), plan.network), start.promised);
        for (const worker of order) {
          const made = newRecord(project, request, plan, session, worker.workerId, deps);
          try {
            return await place(worker, made);
          } catch (error) {
            if (!isAway(error)) throw error;
            workers.missed(worker.workerId);
          }
        }
        throw noneAnswers(order.length);
      });
    });
    return outcomeOf(start, record, signal);
  };
}

function newRecord(
  project: string,
  request: CreateSessionRequest,
  { env, limits: own, network, sample }: SessionPlan,
  { sessionId, requestDigest }: NewSession,
  workerId: string,
  { limits, nowMs }: SessionCreatorDeps,
): SessionRecord {
  const now = nowMs();
  const ttlMs =
    request.ttl === undefined ? limits.defaultTtlMs : checkDuration('ttl', request.ttl, 1_000, limits.ttlMs);
  const session = create(SessionSchema, {
    sessionId,
    state: SessionState.CREATING,
    image: request.image,
    labels: request.labels,
    env,
    createTime: timestampFromMs(now),
    expireTime: timestampFromMs(now + ttlMs),
    workerId,
    ...(own === undefined ? {} : { limits: own }),
    ...(request.idleTimeout === undefined ? {} : { idleTimeout: request.idleTimeout }),
    ...(network === undefined ? {} : { network }),
    ...(sample === undefined ? {} : { sample }),
  });
  return create(SessionRecordSchema, { project, session, requestDigest, activeTime: timestampFromMs(now) });
}
