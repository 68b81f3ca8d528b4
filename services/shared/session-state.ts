import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  PauseReason,
  type Session,
  type SessionEndReason,
  SessionSchema,
  SessionState,
  TranscriptState,
} from '../../gen/assay/v1/session_pb.js';
import type { ResourceLimits } from '../../gen/assay/v1/types_pb.js';
import type { Reason } from './error-reason.ts';

/** What became of an ended session's transcript. */
export interface TranscriptOutcome {
  readonly state: TranscriptState;
  /** Why it is not stored, or not yet. */
  readonly message: string;
}

/** Why a session is LOST: its worker came back without it, or will not come back. */
export type LossReason = SessionEndReason.SANDBOX_LOST | SessionEndReason.WORKER_FORGOTTEN;

/** Why a session ended. */
export interface EndCause {
  readonly endReason: SessionEndReason;
  /** With CREATE_FAILED: the reason of the error. */
  readonly errorReason?: Reason;
  readonly message: string;
}

/** Why a worker has a session stand still on its own account. */
export interface Hold {
  readonly pauseReason: PauseReason.DISK_PRESSURE | PauseReason.GRADING;
  readonly message: string;
}

/** What can happen to a session's record. */
export type SessionEvent =
  | { type: 'building'; message: string }
  /** With `held`: its worker has it stand still from the beginning. */
  | { type: 'ready'; limits?: ResourceLimits; warm?: boolean; held?: Hold }
  | ({ type: 'closing' } & EndCause)
  | { type: 'closed'; atMs: number; transcript?: TranscriptOutcome }
  | ({ type: 'failed'; atMs: number; transcript?: TranscriptOutcome } & EndCause)
  | { type: 'lost'; endReason: LossReason; message: string; atMs: number; transcript?: TranscriptOutcome }
  | { type: 'transcript'; transcript: TranscriptOutcome }
  /** With a hold: by its worker, which has it stand still. */
  | ({ type: 'paused' } & Partial<Hold>)
  | { type: 'resumed' };

/** CLOSED, FAILED and LOST are final. */
export function isTerminal(state: SessionState): boolean {
  return state === SessionState.CLOSED || state === SessionState.FAILED || state === SessionState.LOST;
}

/** Whether nothing is left to be done for it, and nothing changes any more. */
export function isOver({ state, transcriptState }: Pick<Session, 'state' | 'transcriptState'>): boolean {
  return isTerminal(state) && transcriptState !== TranscriptState.PENDING;
}

/** A session that is not paused. */
const awake = { paused: false, pauseReason: PauseReason.UNSPECIFIED } as const;

function causeOf({ endReason, errorReason, message }: EndCause): Partial<Session> {
  return { endReason, errorReason: errorReason ?? '', message };
}

/** A message may quote what a program said; a record that is too long for the store would never be written. */
const longestMessage = 2_000;

function cut(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage)} …`;
}

/** The session after the event, or undefined where the event changes nothing or comes too late. */
export function advance(session: Session, event: SessionEvent): Session | undefined {
  const next = (change: Partial<Session>): Session => ({
    ...create(SessionSchema, session),
    ...change,
    ...(change.message && { message: cut(change.message) }),
    ...(change.transcriptMessage && { transcriptMessage: cut(change.transcriptMessage) }),
  });
  const ended = (atMs: number, outcome: TranscriptOutcome | undefined): Partial<Session> => ({
    endTime: timestampFromMs(atMs),
    ...awake,
    // Variables often are secrets, and nobody needs them any more; the record is kept for weeks.
    env: {},
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
        ...(event.held === undefined ? awake : { paused: true, ...event.held }),
        message: event.held?.message ?? '',
        warm: event.warm === true,
        ...(event.limits && { limits: event.limits }),
      });
    case 'closing':
      if (session.state === SessionState.CLOSING) return undefined;
      return next({ state: SessionState.CLOSING, ...causeOf(event) });
    case 'closed':
      return next({ state: SessionState.CLOSED, ...ended(event.atMs, event.transcript) });
    case 'failed':
      return next({ state: SessionState.FAILED, ...causeOf(event), ...ended(event.atMs, event.transcript) });
    case 'lost':
      return next({ state: SessionState.LOST, ...causeOf(event), ...ended(event.atMs, event.transcript) });
    case 'paused': {
      // Whoever pauses it last is who has it paused.
      if (session.state !== SessionState.READY) return undefined;
      const { pauseReason = PauseReason.CALLER, message = '' } = event;
      if (session.paused && session.pauseReason === pauseReason) return undefined;
      return next({ paused: true, pauseReason, message });
    }
    case 'resumed':
      if (session.state !== SessionState.READY || !session.paused) return undefined;
      return next({ ...awake, message: '' });
  }
}
