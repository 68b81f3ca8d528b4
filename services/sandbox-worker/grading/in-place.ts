import type { HostIds } from '../docker/host-ids.ts';
import type { Finished } from './command-outcome.ts';
import type { GuestCommand } from './guest-commands.ts';

/** The session in which runs at SHARED take place; one at a time. */
export interface InPlaceSession {
  /** Keeps it for one verification until the answer is called; undefined where it is kept for another, or paused. */
  keep(): (() => void) | undefined;
  /**
   * Does the work in the session. Whatever becomes of it, nothing of it is left afterwards: no process, no file. Rejects with
   * SessionGone where the session has ended, before or meanwhile, and with the signal's reason once it is aborted.
   */
  within<T>(signal: AbortSignal, work: (place: SessionPlace) => Promise<T>): Promise<T>;
}

/** A session that goes on while tests run in it. */
export interface SessionPlace {
  /** Its root as it sees it, in which its processes move. */
  readonly merged: string;
  /** The owners that `merged` shows. */
  readonly ids: HostIds | undefined;
  /** What it changed. */
  readonly upper: string;
  /** Runs a command to its end or its deadline, which stands still while the session does, and ends all that it started. */
  run(command: GuestCommand, timeoutSeconds: number): Promise<Finished>;
}

/** The session is not there any more: nothing is known about the submission, and no other attempt would help. */
export class SessionGone extends Error {
  override readonly name = 'SessionGone';
}
