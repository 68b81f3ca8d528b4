import type { Execution } from './execution.ts';
import type { ExecuteOptions, Executions } from './executions.ts';
import { type RunOptions, type RunResult, runProgram } from './run.ts';
import type { ShellInfo } from './shell-info.ts';

/** Shell text, or shell text as bytes. */
export type ShellText = string | Uint8Array;
export type ShellExecuteOptions = Omit<ExecuteOptions, 'shellId' | 'env' | 'cwd'>;
export type ShellRunOptions = Omit<RunOptions, 'shellId' | 'env' | 'cwd'>;

/**
 * A shell that lives on between commands: directory, variables, functions, jobs. Its commands run one at a time, in the
 * order in which they were given. `await using` closes it at the end of the block.
 */
export interface Shell extends AsyncDisposable {
  readonly id: string;
  readonly sessionId: string;
  /** The shell as it was when it was last asked about through this handle. */
  readonly info: ShellInfo;
  refresh(): Promise<ShellInfo>;
  /** Runs a command to its end and collects what it writes. */
  run(text: ShellText, options?: ShellRunOptions): Promise<RunResult>;
  /** Gives a command to the shell and streams what it does. */
  execute(text: ShellText, options?: ShellExecuteOptions): Execution;
  /** Ends the shell, every process it started, and the commands that wait for it. Closing it again succeeds. */
  close(): Promise<ShellInfo>;
}

export interface ShellCalls {
  get(): Promise<ShellInfo>;
  close(): Promise<ShellInfo>;
}

export function createShellHandle(calls: ShellCalls, executions: Executions, known: ShellInfo): Shell {
  let info = known;
  const shellId = known.id;

  async function learn(asked: Promise<ShellInfo>): Promise<ShellInfo> {
    info = await asked;
    return info;
  }

  return {
    id: shellId,
    sessionId: known.sessionId,
    get info() {
      return info;
    },
    refresh: () => learn(calls.get()),
    run: (text, options) => runProgram(executions, text, { ...options, shellId }),
    execute: (text, options) => executions.execute(text, { ...options, shellId }),
    close: () => learn(calls.close()),
    async [Symbol.asyncDispose]() {
      await this.close();
    },
  };
}
