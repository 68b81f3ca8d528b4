import type { LogFile } from './log-file.mjs';

export interface ChildOptions {
  name: string;
  program: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  log: LogFile;
  terminal: boolean;
}

/** A process that is started again whenever it ends, until it is told to halt. */
export interface Child {
  readonly log: LogFile;
  readonly pid: number | undefined;
  readonly restarts: number;
  start(): void;
  /** Ends it; it is started again. */
  replace(graceMs: number): Promise<void>;
  /** Ends it for good. */
  halt(signal?: NodeJS.Signals, graceMs?: number): Promise<void>;
}

/** The oom_score_adj of services and their supervisor. */
export const serviceOomScore: number;

export function createChild(options: ChildOptions): Child;
