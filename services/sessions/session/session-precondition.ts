import { type Session, SessionEndReason, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { isTerminal } from '../../shared/session-state.ts';

/** Why this session takes no executions, or undefined if it does. */
export function refusalOf(session: Session): DomainError | undefined {
  const id = session.sessionId;
  const metadata = { session_id: id, state: SessionState[session.state] };
  if (isTerminal(session.state) || session.state === SessionState.CLOSING) return endedError(session);
  if (session.state === SessionState.READY) return undefined;
  const message = `session ${id} is ${SessionState[session.state]}; wait until it is READY`;
  return new DomainError('SESSION_NOT_READY', message, metadata);
}

export function endedError(session: Session): DomainError {
  const { sessionId, state, endReason, errorReason, message } = session;
  const known = endReason === SessionEndReason.UNSPECIFIED ? '' : SessionEndReason[endReason];
  const reason = errorReason === '' ? known : errorReason;
  const because = [reason, message].filter((part) => part !== '').join(': ');
  const why = because === '' ? '' : ` (${because})`;
  const text = `session ${sessionId} is ${SessionState[state]}${why}; create a new one, or read this one with GetTranscript`;
  return new DomainError('SESSION_ENDED', text, {
    session_id: sessionId,
    state: SessionState[state],
    session_reason: reason,
  });
}

export function unreachableError(sessionId: string, workerId: string, whatHappens: string): DomainError {
  const message = `the worker ${workerId} of session ${sessionId} is silent; ${whatHappens}`;
  return new DomainError('SESSION_UNREACHABLE', message, { session_id: sessionId, worker_id: workerId });
}
