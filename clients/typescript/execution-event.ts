import {
  type AwaitingInputKind,
  EndReason,
  type ExecutionResult as WireResult,
} from '../../gen/assay/v1/execution_pb.js';
import { toDate, toMilliseconds } from './time.ts';

/** Which of a program's two output streams. */
export type StreamName = 'stdout' | 'stderr';

/** Why an execution ended, as the server names it. */
export type EndReasonName = Exclude<keyof typeof EndReason, 'UNSPECIFIED'>;

/** How a program was seen to wait for input: it reads it, or it wrote nothing for a second. */
export type AwaitingKind = Exclude<keyof typeof AwaitingInputKind, 'UNSPECIFIED'>;

/** One thing that an execution did. `finished` is always the last. */
export type ExecutionEvent =
  | { readonly type: 'started'; readonly startTime: Date | undefined }
  | { readonly type: 'stdout'; readonly offset: number; readonly data: Uint8Array }
  | { readonly type: 'stderr'; readonly offset: number; readonly data: Uint8Array }
  /** The bytes `startOffset` (included) to `endOffset` (excluded) are not kept any more. */
  | { readonly type: 'gap'; readonly stream: StreamName; readonly startOffset: number; readonly endOffset: number }
  /** The program seems to wait for input; `inputBytes` were given by then, and taken. Only while its input is open. */
  | { readonly type: 'awaitingInput'; readonly kind: AwaitingKind; readonly inputBytes: number }
  | { readonly type: 'heartbeat' }
  | { readonly type: 'finished'; readonly result: ExecutionResult };

/** How an execution ended. A non-zero exit code is not an error of the call. */
export interface ExecutionResult {
  readonly reason: EndReasonName;
  readonly exitCode: number | undefined;
  readonly signal: number | undefined;
  readonly durationMs: number;
  readonly cpuTimeMs: number;
  readonly peakMemoryBytes: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly oomKills: number;
  /** One sentence where the reason needs one; else empty. */
  readonly message: string;
  readonly endTime: Date | undefined;
  /** In a shell: it was opened anew, with its initial state, since the command before this one. */
  readonly shellReopened: boolean;
  /** In a shell: it ended with this command, and its state is gone. */
  readonly shellEnded: boolean;
}

export function toResult(wire: WireResult): ExecutionResult {
  return {
    reason: EndReason[wire.reason] as EndReasonName,
    exitCode: wire.exitCode,
    signal: wire.signal,
    durationMs: toMilliseconds(wire.duration),
    cpuTimeMs: toMilliseconds(wire.cpuTime),
    peakMemoryBytes: Number(wire.peakMemoryBytes),
    stdoutBytes: Number(wire.stdoutBytes),
    stderrBytes: Number(wire.stderrBytes),
    oomKills: wire.oomKillCount,
    message: wire.message,
    endTime: toDate(wire.endTime),
    shellReopened: wire.shellReopened,
    shellEnded: wire.shellEnded,
  };
}
