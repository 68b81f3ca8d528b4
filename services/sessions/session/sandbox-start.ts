import { setTimeout as delay } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { type Session, SessionEndReason, SessionSchema, SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { Network } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { advance } from '../../shared/session-state.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { KnownWorker, WorkerDirectory } from '../worker/worker-directory.ts';
import { offering } from './network-offer.ts';
import { isAway, noCapacity, noShare, pingAfterMs, placementOrder } from './placement.ts';
import type { SessionDirectory } from './session-directory.ts';
import { unreachableError } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';

/** Drives a CREATING session to its next state. Any number of callers may do that for one session at once. */
export interface SandboxStart {
  /** Placed by this process and perhaps not in the workers' registrations yet, by worker id. */
  readonly promised: ReadonlyMap<string, number>;
  /** The record once it has left CREATING. Rejects with the signal's reason. */
  settled(record: SessionRecord, signal: AbortSignal): Promise<SessionRecord>;
}

export interface SandboxStartDeps {
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly createMs: number;
  /** In addition, where the image of a sample may have to be built. */
  readonly buildMs: number;
  readonly nowMs: () => number;
}

/** `away`: the worker takes nothing now, and if it took this it writes no record of another's session. */
type Outcome = 'done' | 'full' | 'away' | 'unknown' | DomainError;

/** How often a worker that went away is looked for. */
const lookMs = 250;

export function createSandboxStart(deps: SandboxStartDeps): SandboxStart {
  const { sessions, workers, client } = deps;
  const promised = new Map<string, number>();

  /** The call is not tied to the caller: who goes away leaves a session that its request id finds again. */
  const ask = async (project: string, { sessionId, workerId, sample }: Session): Promise<Outcome> => {
    const worker = await workers.find(workerId);
    if (worker === undefined) return 'unknown';
    promised.set(workerId, (promised.get(workerId) ?? 0) + 1);
    try {
      const options = { timeoutMs: deps.createMs + (sample === undefined ? 0 : deps.buildMs), pingAfterMs };
      await client.call(worker.record.address, WorkerService.method.createSandbox, { project, sessionId }, options);
      return 'done';
    } catch (error) {
      return outcomeOf(error);
    } finally {
      promised.set(workerId, (promised.get(workerId) ?? 1) - 1);
      if (promised.get(workerId) === 0) promised.delete(workerId);
    }
  };
  /** Gives the session up, if it is still where it was refused: another caller may have found a worker for it. */
  const fail = (record: SessionRecord, error: DomainError): Promise<SessionRecord> =>
    sessions.update(record.project, sessionOf(record).sessionId, (found) => {
      const { reason, message } = error;
      const session = sessionOf(found);
      if (session.state !== SessionState.CREATING || session.workerId !== sessionOf(record).workerId) return undefined;
      const next = advance(session, {
        type: 'failed',
        endReason: SessionEndReason.CREATE_FAILED,
        errorReason: reason,
        message,
        atMs: deps.nowMs(),
      });
      return next === undefined ? undefined : withSession(found, next);
    });
  const nextWorker = (record: SessionRecord, tried: ReadonlyMap<string, Outcome>): string | undefined => {
    const others = workers.all().filter((worker) => !tried.has(worker.record.workerId));
    // A fork is made where its source is.
    const bound = sessionOf(record).forkedFrom !== '';
    return bound ? undefined : roomiest(others, sessionOf(record).network, promised);
  };
  /** Gives the session to another worker, if it is still where it was refused. */
  const moveTo = async (record: SessionRecord, next: string): Promise<SessionRecord> => {
    const from = sessionOf(record).workerId;
    return sessions.update(record.project, sessionOf(record).sessionId, (found) => {
      const session = sessionOf(found);
      if (session.state !== SessionState.CREATING || session.workerId !== from) return undefined;
      return withSession(found, { ...create(SessionSchema, session), workerId: next });
    });
  };
  /** Resolves when the worker, which alone can make the session, is heard of again. Rejects when it is silent. */
  const untilBack = async ({ sessionId, workerId }: Session, signal: AbortSignal): Promise<void> => {
    for (;;) {
      const worker = workers.peek(workerId);
      if (worker?.reachable !== true) {
        throw unreachableError(
          sessionId,
          workerId,
          'the session is made when it is back; ask again with the same request_id',
        );
      }
      if (!worker.suspect) return;
      await delay(lookMs, undefined, { signal });
    }
  };
  const drive = async (record: SessionRecord, signal: AbortSignal): Promise<void> => {
    const tried = new Map<string, Outcome>();
    let found = record;
    while (sessionOf(found).state === SessionState.CREATING) {
      const { sessionId, workerId } = sessionOf(found);
      const outcome = await ask(found.project, sessionOf(found));
      if (outcome === 'unknown') return;
      if (outcome === 'done') return void (await sessions.fresh(found.project, sessionId));
      if (outcome instanceof DomainError && !lacksRoom(outcome)) {
        found = await fail(found, outcome);
        continue;
      }
      if (outcome === 'away') workers.missed(workerId);
      const next = nextWorker(found, tried.set(workerId, outcome));
      if (next !== undefined) found = await moveTo(found, next);
      // What the last worker lacked tells more than how many were asked.
      else if (outcome instanceof DomainError) found = await fail(found, outcome);
      else if (outcome !== 'away') found = await fail(found, noPlace([...tried.values()].some(isShare), tried.size));
      else {
        await untilBack(sessionOf(found), signal);
        found = await sessions.fresh(found.project, sessionId);
      }
    }
  };
  return {
    promised,
    settled: (record, signal) => {
      const unreachable = new AbortController();
      const either = AbortSignal.any([signal, unreachable.signal]);
      // The record tells how it went, also where the worker or the store broke off in between.
      drive(record, signal).catch((error) => {
        if (error instanceof DomainError && error.reason === 'SESSION_UNREACHABLE') unreachable.abort(error);
      });
      const left = (found: SessionRecord): boolean => sessionOf(found).state !== SessionState.CREATING;
      return sessions.until(record.project, sessionOf(record).sessionId, left, either);
    },
  };
}

function roomiest(
  workers: readonly KnownWorker[],
  network: Network | undefined,
  promised: ReadonlyMap<string, number>,
): string | undefined {
  try {
    return placementOrder(offering(workers, network), promised)[0]?.workerId;
  } catch {
    return undefined;
  }
}

/** A store that does not answer leaves it open: the worker makes the session when it does. */
function outcomeOf(error: unknown): Outcome {
  if (isAway(error)) return 'away';
  if (!(error instanceof DomainError)) return 'unknown';
  switch (error.reason) {
    case 'NO_CAPACITY':
      return 'full';
    case 'STORE_UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
      return 'unknown';
    default:
      return error;
  }
}

/** Whether another worker may have what this one lacks. */
function lacksRoom({ reason }: DomainError): boolean {
  return reason === 'HOST_FULL' || reason === 'CAPACITY_SHARE';
}

function isShare(outcome: Outcome): boolean {
  return outcome instanceof DomainError && outcome.reason === 'CAPACITY_SHARE';
}

function noPlace(share: boolean, workers: number): DomainError {
  return share ? noShare(workers) : noCapacity(workers);
}

function withSession(record: SessionRecord, session: SessionRecord['session']): SessionRecord {
  return { ...create(SessionRecordSchema, record), ...(session === undefined ? {} : { session }) };
}
