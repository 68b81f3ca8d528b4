import { OutputStream, type TranscriptEvent as WireExecutionEvent } from '../../gen/assay/v1/execution_pb.js';
import { SessionState, ShellChange, type SessionEvent as WireEvent } from '../../gen/assay/v1/session_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { type ExecutionResult, type StreamName, toResult } from './execution-event.ts';
import {
  type PauseReasonName,
  type SessionEndReasonName,
  type SessionStateName,
  toEndReason,
  toPauseReason,
} from './session-info.ts';
import { toDate } from './time.ts';
import { toVerdict, type VerdictName, type VerificationStateName } from './verification-info.ts';

/** What happened to a shell, as the server names it. */
export type ShellChangeName = Exclude<keyof typeof ShellChange, 'UNSPECIFIED'>;

/** One thing that an execution of a session did, as the session's log tells it. */
export type LoggedEvent =
  /** Without a shell id it runs in a process of its own. */
  | { readonly type: 'started'; readonly executionId: string; readonly summary: string; readonly shellId?: string }
  /** It could not be started; nothing ran. */
  | {
      readonly type: 'refused';
      readonly executionId: string;
      readonly summary: string;
      readonly reason: string;
      readonly message: string;
    }
  | { readonly type: StreamName; readonly executionId: string; readonly offset: number; readonly data: Uint8Array }
  /** The bytes from `startOffset` (included) to `endOffset` (excluded) are not kept. */
  | {
      readonly type: 'gap';
      readonly executionId: string;
      readonly stream: StreamName;
      readonly startOffset: number;
      readonly endOffset: number;
    }
  | { readonly type: 'finished'; readonly executionId: string; readonly result: ExecutionResult };

/** What a place in a session's log adds to an event. */
export interface Placed {
  readonly time: Date | undefined;
  /** Goes on after this event when it is given to `follow`; empty in a heartbeat. */
  readonly cursor: string;
}

export type TranscriptEvent = LoggedEvent & Placed;

/** One thing that happened in a session. A terminal state is the last. */
export type SessionEvent = Placed &
  (
    | LoggedEvent
    | {
        readonly type: 'state';
        readonly state: SessionStateName;
        readonly endReason: SessionEndReasonName | undefined;
        readonly errorReason: string;
        readonly message: string;
        readonly paused: boolean;
        readonly pauseReason: PauseReasonName | undefined;
      }
    | {
        readonly type: 'shell';
        readonly shellId: string;
        readonly change: ShellChangeName;
        readonly openCount: number;
      }
    /** A verification of the session is at this state now. */
    | {
        readonly type: 'verification';
        readonly verificationId: string;
        readonly state: VerificationStateName;
        readonly verdict: VerdictName | undefined;
        readonly passedCount: number;
        readonly testCount: number;
      }
    /** The session has ended and its log cannot be read from here on. */
    | { readonly type: 'missing'; readonly message: string }
    | { readonly type: 'heartbeat'; readonly state: SessionStateName }
  );

/** Undefined: an event of a newer server that this client does not know. */
export function toSessionEvent(
  { time, cursor, event }: WireEvent,
  sessionState: SessionState,
): SessionEvent | undefined {
  const placed = { time: toDate(time), cursor };
  switch (event.case) {
    case 'execution': {
      const logged = toLoggedEvent(event.value);
      return logged && { ...placed, ...logged };
    }
    case 'state': {
      const { errorReason, message, paused } = event.value;
      const state = SessionState[event.value.state] as SessionStateName;
      const endReason = toEndReason(event.value.endReason);
      const pauseReason = toPauseReason(event.value.pauseReason);
      return { ...placed, type: 'state', state, endReason, errorReason, message, paused, pauseReason };
    }
    case 'shell': {
      const { shellId, change, openCount } = event.value;
      return { ...placed, type: 'shell', shellId, change: ShellChange[change] as ShellChangeName, openCount };
    }
    case 'verification': {
      const { verificationId, passedCount, testCount } = event.value;
      const state = VerificationState[event.value.state] as VerificationStateName;
      const verdict = toVerdict(event.value.verdict);
      return { ...placed, type: 'verification', verificationId, state, verdict, passedCount, testCount };
    }
    case 'missing':
      return { ...placed, type: 'missing', message: event.value.message };
    case 'heartbeat':
      return { ...placed, type: 'heartbeat', state: SessionState[sessionState] as SessionStateName };
    default:
      return undefined;
  }
}

export function toLoggedEvent({ executionId, event }: WireExecutionEvent): LoggedEvent | undefined {
  switch (event.case) {
    case 'started':
      return {
        ...{ type: 'started', executionId, summary: event.value.summary },
        ...(event.value.shellId === '' ? {} : { shellId: event.value.shellId }),
      };
    case 'refused': {
      const { summary, reason, message } = event.value;
      return { type: 'refused', executionId, summary, reason, message };
    }
    case 'stdout':
    case 'stderr':
      return { type: event.case, executionId, offset: Number(event.value.offset), data: event.value.data };
    case 'gap': {
      const stream = event.value.stream === OutputStream.STDERR ? 'stderr' : 'stdout';
      const { startOffset, endOffset } = event.value;
      return { type: 'gap', executionId, stream, startOffset: Number(startOffset), endOffset: Number(endOffset) };
    }
    case 'finished':
      return event.value.result && { type: 'finished', executionId, result: toResult(event.value.result) };
    default:
      return undefined;
  }
}
