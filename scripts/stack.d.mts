import type { Setup } from './setup/index.mjs';

export type ChildName = 'nats' | 'worker' | 'sessions';

export interface StackOptions {
  /** What set-up found; set up again when it is not given. */
  setup?: Setup;
  /** The data directory of this stack, made when missing. Default: that of set-up. */
  dataDir?: string;
  /** host:port of the public API. Port 0, the default, picks a free port on 127.0.0.1. */
  listen?: string;
  /** What the worker does with its sandboxes when it is told to stop. Default: close. */
  onStop?: 'close' | 'keep';
  /** A broker that already runs, instead of a nats-server of the stack's own. */
  natsUrl?: string;
  /** Further environment variables of each child. */
  env?: Partial<Record<ChildName, Record<string, string>>>;
  /** Where the children's logs go. Default: files below `<dataDir>/logs`. */
  logs?: 'files' | 'terminal';
  /** How long the start may take, and `ready` where it is not told. Default: 60 s. */
  readyWithinMs?: number;
  /** Told, in a sentence, when the supervisor restarts the broker by itself. Its log has it too. */
  onNotice?: (text: string) => void;
  /** Gives up the start. Once the stack is ready it has no effect: use `stop`. */
  signal?: AbortSignal;
}

export interface Stack {
  readonly endpoint: string;
  readonly key: string;
  readonly keyFile: string;
  readonly dataDir: string;
  readonly installation: string;
  readonly natsUrl: string;
  /** Credentials of the services: {"user","password"}. */
  readonly natsAuthFile: string;
  /** Credentials of the user who may only read events. Undefined with a broker of the user's own. */
  readonly eventsAuthFile: string | undefined;
  readonly workerTokenFile: string;
  /** The processes as they are now; a child that is being started again has none. */
  readonly pids: Partial<Record<ChildName, number>>;
  /** How often the child ended and was started again. */
  restarts(name: ChildName): number;
  /** Sends a signal (default SIGKILL); the child is started again if it ends. False when it does not run. */
  kill(name: ChildName, signal?: NodeJS.Signals): boolean;
  /** Ends a child that is not to be started again before `start`. */
  halt(name: ChildName, signal?: NodeJS.Signals): Promise<void>;
  start(name: ChildName): void;
  /** The end of a child's log. */
  lastLines(name: ChildName, count?: number): string[];
  /** Waits until the public port is healthy (again). Default: at most `readyWithinMs`. */
  ready(ms?: number): Promise<void>;
  /** Stops sessions, worker and broker in this order, or all at once with SIGKILL. */
  stop(options?: { force?: boolean }): Promise<void>;
}

export function startStack(options?: StackOptions): Promise<Stack>;
