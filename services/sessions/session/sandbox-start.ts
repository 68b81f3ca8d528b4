import { create } from '@bufbuild/protobuf';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/events/v1/records_pb.js';
import { type Network, type Session, SessionSchema, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { advance } from '../../shared/session-state.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { KnownWorker, WorkerDirectory } from '../worker/worker-directory.ts';
import { offering } from './network-offer.ts';
import { noCapacity, placementOrder } from './placement.ts';
import type { SessionDirectory } from './session-directory.ts';
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

type Outcome = 'done' | 'full' | 'unknown' | DomainError;

export function createSandboxStart(deps: SandboxStartDeps): SandboxStart {
  const { sessions, workers, client } = deps;
  const promised = new Map<string, number>();

  /** The call is not tied to the caller: who goes away leaves a session that its request id finds again. */
  const ask = async (project: string, { sessionId, workerId, sample }: Session): Promise<Outcome> => {
    const worker = await workers.find(workerId);
    if (worker === undefined) return 'unknown';
    promised.set(workerId, (promised.get(workerId) ?? 0) + 1);
    try {
      const options = { timeoutMs: deps.createMs + (sample === undefined ? 0 : deps.buildMs) };
      await client.call(worker.record.address, WorkerService.method.createSandbox, { project, sessionId }, options);
      return 'done';
    } catch (error) {
      return outcomeOf(error);
    } finally {
      promised.set(workerId, (promised.get(workerId) ?? 1) - 1);
      if (promised.get(workerId) === 0) promised.delete(workerId);
    }
  };
  const fail = (record: SessionRecord, error: DomainError): Promise<SessionRecord> =>
    sessions.update(record.project, sessionOf(record).sessionId, (found) => {
      const { reason, message } = error;
      const next = advance(sessionOf(found), { type: 'failed', reason, message, atMs: deps.nowMs() });
      const still = sessionOf(found).state === SessionState.CREATING;
      return next === undefined || !still ? undefined : withSession(found, next);
    });
  /** Gives the session to the next worker with room, if it is still where it was refused. */
  const moveOn = async (record: SessionRecord, full: ReadonlySet<string>): Promise<SessionRecord> => {
    const others = workers.all().filter((worker) => !full.has(worker.record.workerId));
    // A fork is made where its source is.
    const bound = sessionOf(record).forkedFrom !== '';
    const next = bound ? undefined : roomiest(others, sessionOf(record).network, promised);
    if (next === undefined) return fail(record, noCapacity(full.size));
    const from = sessionOf(record).workerId;
    return sessions.update(record.project, sessionOf(record).sessionId, (found) => {
      const session = sessionOf(found);
      if (session.state !== SessionState.CREATING || session.workerId !== from) return undefined;
      return withSession(found, { ...create(SessionSchema, session), workerId: next });
    });
  };
  const drive = async (record: SessionRecord): Promise<void> => {
    const full = new Set<string>();
    let found = record;
    while (sessionOf(found).state === SessionState.CREATING) {
      const { sessionId, workerId } = sessionOf(found);
      const outcome = await ask(found.project, sessionOf(found));
      if (outcome === 'unknown') return;
      if (outcome === 'full') found = await moveOn(found, full.add(workerId));
      else if (outcome === 'done') return void (await sessions.fresh(found.project, sessionId));
      else found = await fail(found, outcome);
    }
  };
  return {
    promised,
    settled: (record, signal) => {
      // The record tells how it went, also where the worker or the store broke off in between.
      drive(record).catch(() => {});
      const left = (found: SessionRecord): boolean => sessionOf(found).state !== SessionState.CREATING;
      return sessions.until(record.project, sessionOf(record).sessionId, left, signal);
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

/** A worker that cannot be reached may have begun: it ends what it began when it is back, so the outcome is open. */
function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof DomainError)) return 'unknown';
  switch (error.reason) {
    case 'NO_CAPACITY':
      return 'full';
    case 'WORKER_UNREACHABLE':
    case 'SHUTTING_DOWN':
    case 'STORE_UNAVAILABLE':
    case 'DEADLINE_EXCEEDED':
      return 'unknown';
    default:
      return error;
  }
}

function withSession(record: SessionRecord, session: SessionRecord['session']): SessionRecord {
  return { ...create(SessionRecordSchema, record), ...(session === undefined ? {} : { session }) };
}
