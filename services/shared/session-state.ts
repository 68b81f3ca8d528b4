import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type ResourceLimits, type Session, SessionSchema, SessionState } from '../../gen/assay/v1/session_pb.js';

/** What can happen to a session's record. */
export type SessionEvent =
  | { type: 'ready'; limits?: ResourceLimits; warm?: boolean }
  | { type: 'closing'; reason: string; message: string }
  | { type: 'closed'; atMs: number }
  | { type: 'failed'; reason: string; message: string; atMs: number }
  | { type: 'lost'; message: string; atMs: number }
  | { type: 'paused' }
  | { type: 'resumed' };

/** CLOSED, FAILED and LOST are final. */
export function isTerminal(state: SessionState): boolean {
  return state === SessionState.CLOSED || state === SessionState.FAILED || state === SessionState.LOST;
}

/** The session after the event, or undefined where the event changes nothing or comes too late. */
export function advance(session: Session, event: SessionEvent): Session | undefined {
  if (isTerminal(session.state)) return undefined;
  const next = (change: Partial<Session>): Session => ({ ...create(SessionSchema, session), ...change });
  switch (event.type) {
    case 'ready':
      if (session.state !== SessionState.CREATING) return undefined;
      return next({
        state: SessionState.READY,
        warm: event.warm === true,
        ...(event.limits && { limits: event.limits }),
      });
    case 'closing':
      if (session.state === SessionState.CLOSING) return undefined;
      return next({ state: SessionState.CLOSING, reason: event.reason, message: event.message });
    case 'closed':
      return next({ state: SessionState.CLOSED, endTime: timestampFromMs(event.atMs), paused: false });
    case 'failed': {
      const { reason, message } = event;
      return next({ state: SessionState.FAILED, reason, message, endTime: timestampFromMs(event.atMs), paused: false });
    }
    case 'lost': {
      const { message } = event;
      const endTime = timestampFromMs(event.atMs);
      return next({ state: SessionState.LOST, reason: 'SANDBOX_LOST', message, endTime, paused: false });
    }
    case 'paused':
      return session.state === SessionState.READY && !session.paused ? next({ paused: true }) : undefined;
    case 'resumed':
      return session.state === SessionState.READY && session.paused ? next({ paused: false }) : undefined;
  }
}
