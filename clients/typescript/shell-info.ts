import { ShellState, type Shell as WireShell } from '../../gen/assay/v1/shell_pb.js';
import { toDate } from './time.ts';

/** Where a shell is in its life, as the server names it. */
export type ShellStateName = Exclude<keyof typeof ShellState, 'UNSPECIFIED'>;

/** What is known of one shell. */
export interface ShellInfo {
  readonly id: string;
  readonly sessionId: string;
  readonly state: ShellStateName;
  /** As it was asked for; empty: bash where the image has it, else sh. */
  readonly program: readonly string[];
  readonly cwd: string;
  readonly createTime: Date | undefined;
  /** More than once if it ended by itself, or a command could not be ended otherwise. */
  readonly openCount: number;
  readonly runningExecutionId: string | undefined;
  readonly queuedExecutionCount: number;
}

export function toShellInfo(wire: WireShell): ShellInfo {
  return {
    id: wire.shellId,
    sessionId: wire.sessionId,
    state: ShellState[wire.state] as ShellStateName,
    program: wire.program,
    cwd: wire.workingDirectory,
    createTime: toDate(wire.createTime),
    openCount: wire.openCount,
    runningExecutionId: wire.runningExecutionId || undefined,
    queuedExecutionCount: wire.queuedExecutionCount,
  };
}
