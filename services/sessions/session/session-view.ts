import { create } from '@bufbuild/protobuf';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Session, SessionSchema, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { isTerminal } from '../../shared/session-state.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';

/** The session in a record that always has one. */
export function sessionOf(record: SessionRecord): Session {
  if (record.session === undefined) throw new TypeError('a session record without a session');
  return record.session;
}

/** The session as clients see it: UNREACHABLE is no state of the record but how a silent worker looks from here. */
export function viewOf(record: SessionRecord, workers: WorkerDirectory): Session {
  const session = sessionOf(record);
  if (isTerminal(session.state) || workers.peek(session.workerId)?.reachable === true) return session;
  return {
    ...create(SessionSchema, session),
    state: SessionState.UNREACHABLE,
    message: `the worker ${session.workerId} is silent; the session comes back with it`,
  };
}
