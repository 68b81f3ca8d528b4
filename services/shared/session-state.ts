import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  type ResourceLimits,
  type Session,
  SessionSchema,
  SessionState,
  TranscriptState,
} from '../../gen/assay/v1/session_pb.js';

/** What became of an ended session's transcript. */
export interface TranscriptOutcome {
  readonly state: TranscriptState;
  /** Why it is not stored, or not yet. */
  readonly message: string;
}

/** Why a session is LOST: its worker came back without it, or will not come back. */
export type LossReason = 'SANDBOX_LOST' | 'WORKER_FORGOTTEN';

/** What can happen to a session's record. */
export type SessionEvent =
  | { type: 'building'; message: string }
  | { type: 'ready'; limits?: ResourceLimits; warm?: boolean }
  | { type: 'closing'; reason: string; message: string }
  | { type: 'closed'; atMs: number; transcript?: TranscriptOutcome }
  | { type: 'failed'; reason: string; message: string; atMs: number; transcript?: TranscriptOutcome }
  | { type: 'lost'; reason: LossReason; message: string; atMs: number; transcript?: TranscriptOutcome }
  | { type: 'transcript'; transcript: TranscriptOutcome }
  | { type: 'paused' }
  | { type: 'resumed' };

/** CLOSED, FAILED and LOST are final. */
export function isTerminal(state: SessionState): boolean {
  return state === SessionState.CLOSED || state === SessionState.FAILED || state === SessionState.LOST;
}

/** The session after the event, or undefined where the event changes nothing or comes too late. */
export function advance(session: Session, event: SessionEvent): Session | undefined {
  const next = (change: Partial<Session>): Session => ({ ...create(SessionSchema, session), ...change });
  const ended = (atMs: number, outcome: TranscriptOutcome | undefined): Partial<Session> => ({
    endTime: timestampFromMs(atMs),
    paused: false,
    ...(outcome && { transcriptState: outcome.state, transcriptMessage: outcome.message }),
  });
  if (event.type === 'transcript') {
    if (!isTerminal(session.state) || session.transcriptState !== TranscriptState.PENDING) return undefined;
    return next({ transcriptState: event.transcript.state, transcriptMessage: event.transcript.message });
  }
  if (isTerminal(session.state)) return undefined;
  switch (event.type) {
    case 'building':
      return session.state === SessionState.CREATING ? next({ message: event.message }) : undefined;
    case 'ready':
      if (session.state !== SessionState.CREATING) return undefined;
      return next({
        state: SessionState.READY,
        message: '',
        warm: event.warm === true,
        ...(event.limits && { limits: event.limits }),
      });
    case 'closing':
      if (session.state === SessionState.CLOSING) return undefined;
      return next({ state: SessionState.CLOSING, reason: event.reason, message: event.message });
    case 'closed':
      return next({ state: SessionState.CLOSED, ...ended(event.atMs, event.transcript) });
    case 'failed': {
      const { reason, message } = event;
      return next({ state: SessionState.FAILED, reason, message, ...ended(event.atMs, event.transcript) });
    }
    case 'lost': {
      const { reason, message } = event;
      return next({ state: SessionState.LOST, reason, message, ...ended(event.atMs, event.transcript) });
    }
    case 'paused':
      return session.state === SessionState.READY && !session.paused ? next({ paused: true }) : undefined;
    case 'resumed':
      return session.state === SessionState.READY && session.paused ? next({ paused: false }) : undefined;
  }
}
