import type { SessionDirectory } from '../session/session-directory.ts';
import { refusalOf, unreachableError } from '../session/session-precondition.ts';
import { sessionOf } from '../session/session-view.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';

/** Where the executions of a session are: the address of its worker. */
export type ExecutionTarget = (project: string, sessionId: string) => Promise<string>;

/** Costs no call to the store while the views are warm and the session is READY. */
export function createExecutionTarget(sessions: SessionDirectory, workers: WorkerDirectory): ExecutionTarget {
  return async (project, sessionId) => {
    let session = sessionOf(await sessions.find(project, sessionId));
    // Memory may lag behind the instance that made the session: only the store may say no.
    if (refusalOf(session) !== undefined) session = sessionOf(await sessions.fresh(project, sessionId));
    const refusal = refusalOf(session);
    if (refusal !== undefined) throw refusal;
    const worker = workers.peek(session.workerId) ?? (await workers.find(session.workerId));
    if (worker === undefined || !worker.reachable) {
      throw unreachableError(sessionId, session.workerId, 'its executions go on; attach again when it is back');
    }
    return worker.record.address;
  };
}
