/** How a program ended, and the first bytes of what it said. */
export interface ProgramEnd {
  /** Undefined: a signal ended it. */
  readonly code: number | undefined;
  /** The number of that signal. */
  readonly signal: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningProgram {
  endInput(): void;
  kill(): void;
  /** A program that cannot be started ends with 127, as in a shell. Rejects where nobody can tell how it ended. */
  readonly ended: Promise<ProgramEnd>;
}

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** All of its input, at most 1 MiB. Undefined: its input stays open until it is ended. */
  readonly input?: string;
  readonly onStdout?: (chunk: Buffer) => void;
  readonly onStderr?: (chunk: Buffer) => void;
}

export type StartProgram = (file: string, args: readonly string[], options: ProgramOptions) => RunningProgram;

export const outputLimit = 4 * 1024 * 1024;
