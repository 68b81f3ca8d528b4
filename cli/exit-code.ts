import type { AssayError, ExecutionResult } from '../clients/typescript/index.ts';

/** Exit codes that are Assay's own; every other is the command's. */
export const exitCodes = {
  usage: 2,
  timedOut: 124,
  failed: 125,
  notExecutable: 126,
  notFound: 127,
  interrupted: 130,
  outOfMemory: 137,
  brokenPipe: 141,
} as const;

export const exitCodeHelp = `
Exit codes:
  the command's own, or 128 + n when signal n ended it
  2    wrong usage
  124  the command ran into its --timeout
  125  Assay failed: no server, no key, no session, a lost sandbox
  126  the command could not be executed; 127: it was not found
  130  the command was cancelled, as by Ctrl-C
  137  the command ran out of memory (also: signal 9 ended it)
  141  the reader of our output went away`;

/** How this process ends after an execution that ended so. */
export function toExitCode(result: ExecutionResult): number {
  switch (result.reason) {
    case 'TIMED_OUT':
      return exitCodes.timedOut;
    case 'CANCELLED':
      return exitCodes.interrupted;
    case 'OUT_OF_MEMORY':
      return exitCodes.outOfMemory;
    case 'SANDBOX_LOST':
      return exitCodes.failed;
    case 'EXITED':
    case 'SIGNALED':
    case 'SHELL_EXITED':
      if (result.exitCode !== undefined) return result.exitCode;
      return result.signal === undefined ? exitCodes.failed : 128 + result.signal;
  }
}

/** What to say about an end that the exit code alone does not explain. */
export function describeEnd(result: ExecutionResult): string | undefined {
  const seconds = (result.durationMs / 1000).toFixed(1);
  switch (result.reason) {
    case 'TIMED_OUT':
      return `the command was ended after ${seconds} s by its timeout`;
    case 'CANCELLED':
      return 'the command was cancelled';
    case 'OUT_OF_MEMORY':
      return `the command ran out of memory: the kernel killed ${result.oomKills} of its processes`;
    case 'SANDBOX_LOST':
      return `the sandbox ended before the command did${result.message ? `: ${result.message}` : ''}`;
    case 'SIGNALED':
      return `signal ${result.signal} ended the command`;
    case 'SHELL_EXITED':
      return 'the command ended its shell, which is opened again with its initial state';
    case 'EXITED':
      return undefined;
  }
}

/** How this process ends when the call failed. */
export function toErrorExitCode(error: AssayError): number {
  if (error.reason === 'INVALID_OPTION' || error.reason === 'INVALID_FIELD') return exitCodes.usage;
  if (error.reason !== 'PROGRAM_NOT_STARTED') return exitCodes.failed;
  return error.metadata.errno === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable;
}
