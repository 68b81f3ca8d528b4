/** How a session's sandbox came to be: made from nothing, or taken from the pool. */
export type SandboxStart = 'cold' | 'warm';

/**
 * What the worker counts as it goes. The counts of the short path of a command are plain numbers; whoever renders them
 * reads them then.
 */
export interface Meter {
  readonly outputBytes: { 1: number; 2: number };
  inputBytes: number;
  readonly openStreams: { Execute: number; Attach: number };
  /** Guests that connected again to the same sandbox. */
  guestReconnects: number;
  /** Containers and processes that run without the cgroup they should have. */
  readonly cgroupFailures: { container: number; process: number };
  /** An execution ended, after running for so long, or never ran. */
  executionEnded(reason: string, seconds: number | undefined): void;
  /** A sandbox was made, or could not be. */
  sandboxMade(start: SandboxStart, outcome: 'ready' | 'failed', seconds: number): void;
  /** A sandbox was closed or has failed, by the reason in its record. */
  sandboxEnded(reason: string): void;
  /** Gradings that are under way. */
  gradings: number;
  /** An attempt to grade ended so, after so long: with a verdict, or without one. */
  gradingEnded(outcome: string, seconds: number): void;
  /** A session stood still for so long while what it changed was copied. */
  stoodStill(seconds: number): void;
}
