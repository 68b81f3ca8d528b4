import type { ServiceImpl } from '@connectrpc/connect';
import type { SessionService } from '../../../gen/assay/v1/session_pb.js';
import { requireCaller } from '../auth/caller.ts';
import type { Limits } from '../config.ts';
import type { SessionChanges } from '../session/change-session.ts';
import type { SessionCreator } from '../session/create-session.ts';
import type { SessionForker } from '../session/fork-session.ts';
import type { SessionLister } from '../session/list-sessions.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { viewOf } from '../session/session-view.ts';
import type { SessionFollower } from '../transcript/session-follower.ts';
import { checkSessionId } from '../validation/identifier.ts';
import {
  checkCreateSessionRequest,
  checkForkSessionRequest,
  checkListSessionsRequest,
  checkUpdateSessionRequest,
} from '../validation/session-request.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { deadlineExceeded } from './call-record.ts';

export interface SessionServiceDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly create: SessionCreator;
  readonly fork: SessionForker;
  readonly list: SessionLister;
  readonly changes: SessionChanges;
  readonly follow: SessionFollower;
  readonly limits: Limits;
}

export function createSessionService(deps: SessionServiceDeps): ServiceImpl<typeof SessionService> {
  const { sessions, workers, changes, limits } = deps;
  return {
    async createSession(request, context) {
      checkCreateSessionRequest(request, limits);
      const { project } = requireCaller(context);
      const ms = limits.createMs + (request.sample === undefined ? 0 : limits.buildMs);
      const session = await within(ms, context.signal, (signal) => deps.create(project, request, signal));
      return { session };
    },
    async getSession({ sessionId }, context) {
      checkSessionId(sessionId);
      const record = await sessions.fresh(requireCaller(context).project, sessionId);
      return { session: viewOf(record, workers) };
    },
    listSessions(request, context) {
      checkListSessionsRequest(request);
      return deps.list(requireCaller(context).project, request);
    },
    async updateSession(request, context) {
      checkUpdateSessionRequest(request, limits);
      const record = await changes.update(requireCaller(context).project, request, context.signal);
      return { session: viewOf(record, workers) };
    },
    async pauseSession({ sessionId }, context) {
      checkSessionId(sessionId);
      const record = await changes.pause(requireCaller(context).project, sessionId, context.signal);
      return { session: viewOf(record, workers) };
    },
    async resumeSession({ sessionId }, context) {
      checkSessionId(sessionId);
      const record = await changes.resume(requireCaller(context).project, sessionId, context.signal);
      return { session: viewOf(record, workers) };
    },
    async forkSession(request, context) {
      checkForkSessionRequest(request, limits);
      const { project } = requireCaller(context);
      const session = await within(limits.createMs, context.signal, (signal) => deps.fork(project, request, signal));
      return { session };
    },
    async closeSession({ sessionId }, context) {
      checkSessionId(sessionId);
      const record = await changes.close(requireCaller(context).project, sessionId, context.signal);
      return { session: viewOf(record, workers) };
    },
    async *followSession({ sessionId, cursor, withoutOutput }, context) {
      checkSessionId(sessionId);
      const query = { sessionId, cursor, withoutOutput, executionId: '', untilNow: false };
      const { project } = requireCaller(context);
      for await (const event of deps.follow(project, query, context.signal)) {
        const alive = event.event.case === 'heartbeat';
        yield alive
          ? { event, sessionState: viewOf(await sessions.find(project, sessionId), workers).state }
          : { event };
      }
    },
  };
}

/** A wait has an end of its own where the caller set none. */
async function within<T>(ms: number, signal: AbortSignal, wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(deadlineExceeded()), ms);
  try {
    return await wait(AbortSignal.any([signal, own.signal]));
  } finally {
    clearTimeout(timer);
  }
}
