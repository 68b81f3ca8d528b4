import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Session, SessionEndReason, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { isReason } from '../../shared/error-reason.ts';
import type { SandboxStart } from './sandbox-start.ts';
import { endedError } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';

/** The session of a record once it is READY, or why it never will be. The signal ends the wait, never the making. */
export async function outcomeOf(start: SandboxStart, record: SessionRecord, signal: AbortSignal): Promise<Session> {
  const waiting = sessionOf(record).state === SessionState.CREATING;
  const settled = sessionOf(waiting ? await start.settled(record, signal) : record);
  if (settled.state === SessionState.FAILED) throw failedError(settled);
  // Closed while it was being made: there never was a session to answer with. One that was READY once is the answer.
  if (waiting && settled.state !== SessionState.READY) throw endedError(settled);
  return settled;
}

function failedError({ sessionId, endReason, errorReason, message }: Session): DomainError {
  const reason = errorReason === '' ? SessionEndReason[endReason] : errorReason;
  const text = `session ${sessionId} could not be made (${reason}): ${message}`;
  const metadata = { session_id: sessionId, session_reason: reason };
  return new DomainError(isReason(reason) ? reason : 'SESSION_FAILED', text, metadata);
}
