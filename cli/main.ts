import type { Writable } from 'node:stream';
import { CommanderError } from 'commander';
import { createContext, type Terminal } from './context.ts';
import { exitCodes } from './exit-code.ts';
import { toFailure, writeFailure } from './failure.ts';
import { createProgram } from './program.ts';

/** Runs the command line of this process and ends it. */
export async function main(): Promise<void> {
  const { stdin, stdout, stderr, env } = process;
  // Whoever writes sees the error of a stream in its state; without a listener it would end the process.
  for (const stream of [stdout, stderr]) stream.on('error', () => undefined);
  const code = await runCommandLine(process.argv.slice(2), { stdin, stdout, stderr, env });
  await flushed([stdout, stderr]);
  // Not by running out of work: a stdin that stays open would keep the process alive.
  process.exit(code === 0 ? afterwards(stdout) : code);
}

/** Runs one command line and returns its exit code. */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  const context = createContext(terminal);
  const program = createProgram(context);
  try {
    await program.parseAsync([...args], { from: 'user' });
    return context.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : exitCodes.usage;
    const failure = toFailure(error);
    if (!failure.silent) context.reportFailure(failure);
    return failure.exitCode;
  } finally {
    context.close();
  }
}

/** Waits until what was written to a pipe has left this process. */
async function flushed(streams: readonly Writable[]): Promise<void> {
  for (const stream of streams) {
    if (stream.writableLength === 0 || stream.destroyed) continue;
    await new Promise<void>((resolve) => {
      stream.once('close', resolve);
      stream.write('', () => resolve());
    });
  }
}

/** A success whose output could not be written is none. */
function afterwards(stdout: Writable): number {
  if (!stdout.errored) return 0;
  const failure = writeFailure(stdout.errored);
  if (!failure.silent) process.stderr.write(`assay: ${failure.found}\n`);
  return failure.exitCode;
}
