import type { Command } from 'commander';
import type { Program } from '../../clients/typescript/index.ts';
import {
  type CommandOptions,
  toProgram,
  toShellText,
  withCommandOptions,
  withCommonOptions,
} from '../common-options.ts';
import type { Context } from '../context.ts';
import { exitCodeHelp } from '../exit-code.ts';
import { runInForeground } from '../foreground.ts';
import { listenForInterruption } from '../interruption.ts';

export function addExecCommand(program: Command, context: Context): void {
  const command = program
    .command('exec')
    .description('run a command in a session that exists')
    .argument('<session>', 'its id, ses_…')
    .argument('[command...]', 'a program and its arguments; one argument alone is shell text')
    .option('-s, --shell <id>', 'run it in this shell of the session, after the commands it has; see assay shells')
    .addHelpText('after', exitCodeHelp)
    .action((id: string, args: string[], options: ExecOptions) => exec(context, id, args, options));
  withCommonOptions(withCommandOptions(command), context);
}

type ExecOptions = CommandOptions & { shell?: string };

function exec(context: Context, id: string, args: string[], options: ExecOptions): Promise<void> {
  const toRun = options.shell === undefined ? toProgram(args, options.command) : toShellText(args, options.command);
  return execInSession(context, id, toRun, options);
}

/** Runs a program in a session that stays. */
export async function execInSession(
  context: Context,
  id: string,
  toRun: Program,
  options: CommandOptions,
): Promise<void> {
  const session = await context.client().sessions.get(id);
  const interruption = listenForInterruption();
  interruption.onInsist(() => process.exit(130));
  try {
    context.exitCode = await runInForeground(context, session, toRun, options, interruption);
  } finally {
    interruption.end();
  }
}
