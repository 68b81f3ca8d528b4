import { create } from '@bufbuild/protobuf';
import { SessionRecordSchema, WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { advance, isTerminal, type SessionEvent } from '../../shared/session-state.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { sessionOf } from '../session/session-view.ts';
import type { WorkerDirectory } from './worker-directory.ts';

/**
 * Gives up a worker that is gone for good: nobody registers under its id any more, and its sessions are LOST. Every step may
 * be repeated, so a call that broke off is finished by the next. Resolves with how many sessions it lost.
 */
export type WorkerForgetter = (workerId: string) => Promise<number>;

export function createWorkerForgetter(
  workers: Pick<WorkerDirectory, 'fresh' | 'replace'>,
  sessions: Pick<SessionDirectory, 'ofWorker' | 'update'>,
  nowMs: () => number,
): WorkerForgetter {
  /** First of all: from then on the worker makes and takes up nothing. */
  const mark = async (workerId: string): Promise<void> => {
    for (;;) {
      const found = await workers.fresh(workerId);
      if (found === undefined) throw workerNotFound(workerId);
      const { record, revision, reachable } = found;
      if (record.forgotten) return;
      if (reachable) throw alive(workerId);
      const forgotten = { ...create(WorkerRecordSchema, record), epoch: record.epoch + 1n, forgotten: true };
      // A renewal that came first is seen in the next round, and refuses.
      if (await workers.replace(forgotten, revision)) return;
    }
  };
  return async (workerId) => {
    await mark(workerId);
    const message = `its worker ${workerId} is gone, and was forgotten by the operator`;
    const transcript = { state: TranscriptState.MISSING, message: 'the log is gone with its worker' };
    let lost = 0;
    for (const { project, session } of await sessions.ofWorker(workerId)) {
      if (session === undefined) continue;
      const ended = isTerminal(session.state);
      const event: SessionEvent = ended
        ? { type: 'transcript', transcript }
        : { type: 'lost', endReason: SessionEndReason.WORKER_FORGOTTEN, message, atMs: nowMs(), transcript };
      if (advance(session, event) === undefined) continue;
      await sessions.update(project, session.sessionId, (record) => {
        // A session that was still being placed may have moved on to another worker.
        const next = sessionOf(record).workerId === workerId ? advance(sessionOf(record), event) : undefined;
        return next === undefined ? undefined : { ...create(SessionRecordSchema, record), session: next };
      });
      if (!ended) lost += 1;
    }
    return lost;
  };
}

export function workerNotFound(workerId: string): DomainError {
  return new DomainError('WORKER_NOT_FOUND', `no worker ${workerId} is known; ListWorkers tells which there are`, {
    worker_id: workerId,
  });
}

function alive(workerId: string): DomainError {
  const found = `worker ${workerId} has renewed its registration in the last ten seconds, as far as this server can tell`;
  const message = `${found}; stop it for good and wait as long; type: assay workers forget ${workerId}`;
  return new DomainError('WORKER_ALIVE', message, { worker_id: workerId });
}
