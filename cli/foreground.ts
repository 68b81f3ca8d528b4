import type { Program, Session } from '../clients/typescript/index.ts';
import type { CommandOptions } from './common-options.ts';
import type { Context } from './context.ts';
import { createEventSink } from './event-sink.ts';
import { describeEnd, toExitCode } from './exit-code.ts';
import { Failure } from './failure.ts';
import type { Interruption } from './interruption.ts';
import { feedStdin } from './stdin-feed.ts';

/** Runs a command in a session as if it ran here: its streams are ours, Ctrl-C cancels it, its exit code is returned. */
export async function runInForeground(
  context: Context,
  session: Session,
  program: Program,
  options: CommandOptions,
  interruption: Interruption,
): Promise<number> {
  const input = options.stdin && (options.interactive === true || context.stdin.isTTY !== true);
  const failed = Promise.withResolvers<never>();
  const execution = session.execute(program, { input, ...toExecuteOptions(options) });
  interruption.onInterrupt(() => {
    // One that waits for its shell is withdrawn; one that is not known yet is ended when it has started.
    if (options.shell !== undefined) execution.cancel().catch(() => undefined);
    // If it never starts, its own stream says why.
    execution.started.then(
      () => execution.cancel().catch(failed.reject),
      () => undefined,
    );
  });
  if (input) void feedStdin(context.stdin, execution, failed.reject);
  const relay = async () => {
    const sink = createEventSink(context);
    for await (const event of execution) await sink.write(event);
    return execution.result();
  };
  try {
    const result = await Promise.race([relay(), failed.promise]);
    const sentence = describeEnd(result);
    if (sentence !== undefined) context.note(`assay: ${sentence}`);
    return result.reason === 'CANCELLED' ? (interruption.exitCode ?? toExitCode(result)) : toExitCode(result);
  } catch (error) {
    // A failure of this side only: nobody reads what the command writes any more, so it should not go on.
    if (error instanceof Failure) await execution.cancel().catch(() => undefined);
    throw error;
  }
}

function toExecuteOptions(options: CommandOptions) {
  return {
    ...(options.shell === undefined ? {} : { shellId: options.shell }),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.timeout === undefined ? {} : { timeoutMs: options.timeout }),
  };
}
