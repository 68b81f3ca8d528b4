import { create, fromBinary } from '@bufbuild/protobuf';
import { type Timestamp, timestampNow } from '@bufbuild/protobuf/wkt';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { FollowSandboxResponseSchema, WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import {
  type Session,
  type SessionEvent,
  SessionEventSchema,
  SessionSchema,
  SessionState,
  SessionStateChangedSchema,
  TranscriptState,
} from '../../../gen/assay/v1/session_pb.js';
import { HeartbeatSchema } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Reason } from '../../shared/error-reason.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import { readWorkerStream } from '../execution/execution-reader.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { unreachableError } from '../session/session-precondition.ts';
import { sessionOf } from '../session/session-view.ts';
import type { Cursors } from '../validation/cursor.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import type { EndedLog } from './ended-log.ts';
import type { LogSelection } from './transcript-reader.ts';

export interface FollowQuery extends LogSelection {
  readonly sessionId: string;
  /** As it was given out with an event; empty: from the beginning. */
  readonly cursor: string;
  /** Return after what has happened until now. */
  readonly untilNow: boolean;
}

/** What happened in a session, wherever its log is: on its worker while it lives, in the archive when it has ended. */
export type SessionFollower = (
  project: string,
  query: FollowQuery,
  signal: AbortSignal,
) => AsyncGenerator<SessionEvent, void>;

export interface SessionFollowerDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly ended: EndedLog;
  readonly cursors: Cursors;
  readonly shares: WorkShares;
}

/** Places beside those that workers and the log of what has ended give out: the session was asked for; all is told. */
const beginning = '0.0';
const end = 'end';

const heartbeatMs = 10_000;
const shortestWaitMs = 50;
const longestWaitMs = 1_000;

/** The session's worker will be asked again, or the archive: the log is on its way from the one to the other. */
const passing: ReadonlySet<Reason> = new Set([
  'WORKER_UNREACHABLE',
  'SESSION_UNREACHABLE',
  'SESSION_ENDED',
  'SESSION_NOT_FOUND',
  'SHUTTING_DOWN',
  'STORE_UNAVAILABLE',
]);

export function createSessionFollower(deps: SessionFollowerDeps): SessionFollower {
  const { sessions, workers, client, ended, cursors, shares } = deps;

  /** From the session's worker. Ends only with `untilNow`; else it throws when the sandbox is closed. */
  async function* live(project: string, session: Session, query: FollowQuery, place: string, signal: AbortSignal) {
    const { sessionId } = session;
    const { address } = requireWorker(workers, session);
    const { withoutOutput, executionId, untilNow } = query;
    const request = { sessionId, cursor: place, withoutOutput, executionId, untilNow };
    const stream = await client.openStream(address, WorkerService.method.followSandbox, request, { project });
    for await (const message of readWorkerStream({ stream, address, sessionId, executionId }, signal)) {
      const { event } = fromBinary(FollowSandboxResponseSchema, message);
      if (event !== undefined) yield event;
    }
  }

  /** The record when it has changed, or after a while as it is then. */
  async function next(project: string, record: SessionRecord, ms: number, signal: AbortSignal): Promise<SessionRecord> {
    const { sessionId, state, transcriptState } = sessionOf(record);
    const changed = (found: SessionRecord): boolean =>
      sessionOf(found).state !== state || sessionOf(found).transcriptState !== transcriptState;
    try {
      const either = AbortSignal.any([signal, AbortSignal.timeout(ms)]);
      return await sessions.until(project, sessionId, changed, either);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof DomainError && !passing.has(error.reason)) throw error;
      return record;
    }
  }

  async function* follow(project: string, query: FollowQuery, signal: AbortSignal) {
    const { sessionId } = query;
    let record = await sessions.fresh(project, sessionId);
    let place = query.cursor === '' ? '' : cursors.open(project, sessionId, query.cursor);
    if (place === end) return;
    // Who comes back is told at once that it was heard: nothing may happen in the session for long, or the way to the place may be.
    let toldMs = Number.NEGATIVE_INFINITY;
    if (place === '') {
      yield stateEvent(
        create(SessionSchema, { state: SessionState.CREATING }),
        sessionOf(record).createTime,
        beginning,
      );
      place = beginning;
      toldMs = performance.now();
    }
    let waitMs = shortestWaitMs;
    for (;;) {
      const session = sessionOf(record);
      const isArchived = isTerminal(session.state) && session.transcriptState !== TranscriptState.PENDING;
      if (performance.now() - toldMs >= heartbeatMs) {
        yield eventOf(undefined, '', { case: 'heartbeat', value: create(HeartbeatSchema) });
        toldMs = performance.now();
      }
      if (isArchived) {
        yield* ended(project, session, query, place);
        yield stateEvent(session, session.endTime, end);
        return;
      }
      if (query.untilNow && session.state === SessionState.CREATING) return;
      if (session.state === SessionState.READY) {
        try {
          for await (const event of live(project, session, query, place, signal)) {
            if (event.cursor !== '') place = event.cursor;
            waitMs = shortestWaitMs;
            yield event;
            toldMs = performance.now();
          }
          if (query.untilNow) return;
        } catch (error) {
          const meant = await explainError(sessions, project, sessionId, error);
          if (!isPassing(meant, query)) throw meant;
        }
      } else if (query.untilNow) requireWorker(workers, session);
      record = await next(project, record, waitMs, signal);
      waitMs = Math.min(2 * waitMs, longestWaitMs);
    }
  }

  return async function* (project, query, signal) {
    for await (const event of follow(project, query, signal)) {
      const turn = shares.turn(project);
      if (turn !== undefined) await turn;
      if (event.cursor !== '') event.cursor = cursors.make(project, query.sessionId, event.cursor);
      yield event;
    }
  };
}

function requireWorker(workers: WorkerDirectory, { sessionId, workerId }: Session): { address: string } {
  const worker = workers.peek(workerId);
  if (worker?.reachable) return worker.record;
  throw unreachableError(sessionId, workerId, 'its log can be read when it is back');
}

/** Whoever wants only what there is now is told that its worker is away; whoever follows waits for it. */
function isPassing(error: unknown, { untilNow }: FollowQuery): boolean {
  if (!(error instanceof DomainError) || !passing.has(error.reason)) return false;
  return !untilNow || error.reason === 'SESSION_ENDED';
}

function stateEvent(
  session: Pick<Session, 'state' | 'endReason' | 'errorReason' | 'message' | 'paused' | 'pauseReason'>,
  time: Timestamp | undefined,
  place: string,
): SessionEvent {
  const { state, endReason, errorReason, message, paused, pauseReason } = session;
  return eventOf(time, place, {
    case: 'state',
    value: create(SessionStateChangedSchema, { state, endReason, errorReason, message, paused, pauseReason }),
  });
}

type Told = Extract<SessionEvent['event'], { case: 'state' }> | Extract<SessionEvent['event'], { case: 'heartbeat' }>;

function eventOf(time: Timestamp | undefined, place: string, event: Told): SessionEvent {
  return create(SessionEventSchema, { time: time ?? timestampNow(), cursor: place, event });
}
