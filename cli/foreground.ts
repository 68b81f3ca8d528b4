import type { Execution, ExecutionResult, Program, Session } from '../clients/typescript/index.ts';
import type { CommandOptions } from './common-options.ts';
import type { Context } from './context.ts';
import { createEventSink } from './event-sink.ts';
import { describeEnd, toExitCode } from './exit-code.ts';
import { Failure } from './failure.ts';
import type { Interruption } from './interruption.ts';
import { lendTerminal } from './own-terminal.ts';
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
  const how = { input, mayWait: options.shell !== undefined };
  const result =
    options.tty === true
      ? await runOnTerminal(context, session, program, options, interruption)
      : await relay(context, session.execute(program, { input, ...toExecuteOptions(options) }), how, interruption);
  const sentence = describeEnd(result);
  if (sentence !== undefined) context.note(`assay: ${sentence}`);
  return result.reason === 'CANCELLED' ? (interruption.exitCode ?? toExitCode(result)) : toExitCode(result);
}

/** The command has a terminal, which is ours for as long as it runs. */
async function runOnTerminal(
  context: Context,
  session: Session,
  program: Program,
  options: CommandOptions,
  interruption: Interruption,
): Promise<ExecutionResult> {
  const terminal = lendTerminal(context);
  const { env, ...rest } = toExecuteOptions(options);
  let tidied = false;
  try {
    const execution = session.execute(program, { ...rest, env: { ...terminal.env, ...env }, terminal: terminal.size });
    terminal.follow(execution);
    const result = await relay(context, execution, { input: true, mayWait: false }, interruption);
    tidied = result.reason === 'EXITED';
    return result;
  } finally {
    terminal.release(tidied);
  }
}

/** Passes input and output on until the command has ended. */
async function relay(
  context: Context,
  execution: Execution,
  { input, mayWait }: { input: boolean; mayWait: boolean },
  interruption: Interruption,
): Promise<ExecutionResult> {
  const failed = Promise.withResolvers<never>();
  interruption.onInterrupt(() => {
    // One that waits for its shell is withdrawn; one that is not known yet is ended when it has started.
    if (mayWait) execution.cancel().catch(() => undefined);
    // If it never starts, its own stream says why.
    execution.started.then(
      () => execution.cancel().catch(failed.reject),
      () => undefined,
    );
  });
  if (input) void feedStdin(context.stdin, execution, failed.reject);
  const write = async () => {
    const sink = createEventSink(context);
    for await (const event of execution) await sink.write(event);
    return execution.result();
  };
  try {
    return await Promise.race([write(), failed.promise]);
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
