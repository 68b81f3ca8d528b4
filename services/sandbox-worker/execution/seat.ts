import type { GuestExit } from '../guest/frame.ts';
import type { Doom, DoomReason } from './doom.ts';
import type { Execution } from './execution.ts';
import type { KillsAround, Usage } from './result.ts';

/** What a shell is to the executions that run in it, one at a time. */
export interface Seat {
  /** Whether the shell is being closed. */
  readonly closing: boolean;
  /** Takes back an execution that waits; false: it does not. */
  withdraw(execution: Execution): boolean;
  /** What the shell's processes used since the present execution began. */
  usage(): Usage | KillsAround | undefined;
  /** Ends the execution from outside. */
  doom(execution: Execution, reason: DoomReason): Doom;
  /** The guest did not take it, for the reason of a FAILED frame. True: it waits for the shell again, before all others. */
  turnedAway(execution: Execution, step?: number): boolean;
  /** It is over; the next one may begin. Without an exit, nothing of it ran to an end. */
  left(execution: Execution, exit: GuestExit | undefined): void;
}
