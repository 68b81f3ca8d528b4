import type { Command } from 'commander';
import { AssayError, type Program, type Session } from '../../clients/typescript/index.ts';
import {
  type CommandOptions,
  type SessionOptions,
  toCreateOptions,
  toProgram,
  withCommandOptions,
  withCommonOptions,
  withSessionOptions,
} from '../common-options.ts';
import type { Context } from '../context.ts';
import { exitCodeHelp } from '../exit-code.ts';
import { runInForeground } from '../foreground.ts';
import { listenForInterruption } from '../interruption.ts';
import { requireTerminal } from '../own-terminal.ts';

type RunOptions = SessionOptions & CommandOptions & { keep?: boolean };

const examples = `
Examples:
  assay run -- python3 -c 'print(6 * 7)'     a program and its arguments
  assay run -c 'ls /etc | wc -l'             shell text
  assay run -- sha256sum < big.file          stdin is passed on
  assay run --allow example.org -- curl -sS https://example.org
                                             with a way to one host
  assay run -o json -- make                  one JSON document a line, for each event`;

export function addRunCommand(program: Command, context: Context): void {
  const command = program
    .command('run')
    .description('run a command in a new session, and close the session')
    .argument('[command...]', 'a program and its arguments; one argument alone is shell text')
    .passThroughOptions()
    .option('--keep', 'keep the session')
    .addHelpText('after', `${examples}\n${exitCodeHelp}`)
    .action((args: string[], options: RunOptions) =>
      runInNewSession(context, toProgram(args, options.command), options),
    );
  withCommonOptions(withCommandOptions(withSessionOptions(command)), context);
}

/** Runs a program in a session that is made for it and closed behind it. */
export async function runInNewSession(context: Context, toRun: Program, options: RunOptions): Promise<void> {
  if (options.tty === true) requireTerminal(context);
  const interruption = listenForInterruption();
  try {
    const session = await context.client().sessions.create(toCreateOptions(options));
    interruption.onInsist(() => leave(context, session));
    try {
      context.exitCode =
        interruption.exitCode ?? (await runInForeground(context, session, toRun, options, interruption));
    } catch (error) {
      await closeAfter(error, context, session);
      throw error;
    }
    if (options.keep === true) context.note(`assay: kept ${session.id}; assay exec ${session.id} -- …`);
    else await session.close();
  } finally {
    interruption.end();
  }
}

/** The failure that is told is the first one, so closing is tried only where it can work, and must not fail. */
async function closeAfter(error: unknown, context: Context, session: Session): Promise<void> {
  try {
    if (error instanceof AssayError && error.transient) throw error;
    await session.close();
  } catch {
    context.note(`assay: the session may still live; close it later: assay sessions close ${session.id}`);
  }
}

function leave(context: Context, session: Session): void {
  context.note(`assay: leaving at once; close the session yourself: assay sessions close ${session.id}`);
  process.exit(130);
}
