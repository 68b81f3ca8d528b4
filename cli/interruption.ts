import { constants } from 'node:os';

/** A terminal's Ctrl-C may reach us twice, once through a parent that passes it on: so close together they are one. */
const sameSignalMs = 300;

export interface Interruption {
  /** The exit code that the signal asks for, once there was one. */
  readonly exitCode: number | undefined;
  /** Called at the first signal, or at once if there was one already. */
  onInterrupt(act: () => void): void;
  /** Called at a second signal: the person has no more patience. */
  onInsist(act: () => void): void;
  end(): void;
}

/** Listens for Ctrl-C, a terminal that closes and `kill`, until `end`. */
export function listenForInterruption(): Interruption {
  let firstAt: number | undefined;
  let exitCode: number | undefined;
  let interrupted = () => {};
  let insisted = () => {};
  const listener = (name: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      exitCode = 128 + constants.signals[name];
      interrupted();
    } else if (performance.now() - firstAt > sameSignalMs) {
      insisted();
    }
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, listener);
  return {
    get exitCode() {
      return exitCode;
    },
    onInterrupt(act) {
      interrupted = act;
      if (firstAt !== undefined) act();
    },
    onInsist(act) {
      insisted = act;
    },
    end() {
      for (const name of names) process.off(name, listener);
    },
  };
}
