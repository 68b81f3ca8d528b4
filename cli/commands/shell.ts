import type { Command } from 'commander';
import type { SampleName } from '../../clients/typescript/index.ts';
import {
  type CommandOptions,
  type SessionOptions,
  withCommandOptions,
  withCommonOptions,
  withSessionOptions,
} from '../common-options.ts';
import type { Context } from '../context.ts';
import { exitCodeHelp } from '../exit-code.ts';
import { usageFailure } from '../failure.ts';
import { readSampleWord } from '../sample-name.ts';
import { execInSession } from './exec.ts';
import { runInNewSession } from './run.ts';

type ShellOptions = SessionOptions & CommandOptions & { keep?: boolean };

/** bash where the image has it. */
const anyShell = 'command -v bash >/dev/null 2>&1 && exec bash; exec sh';

const examples = `
Examples:
  assay shell                           a shell in a new session, which is closed when it ends
  assay shell --image IMAGE             the same in another image that the operator allows (ASSAY_IMAGES)
  assay shell examples/hello-fix        the same with the code of a sample
  assay shell ses_…                     a shell in a session that exists
  assay shell -- python3                another program on a terminal

Every key goes to the program, Ctrl-C too. A server that restarts meanwhile is waited for.`;

export function addShellCommand(program: Command, context: Context): void {
  const command = program
    .command('shell')
    .description('an interactive terminal in a session')
    .usage('[options] [session | dataset/sample] [-- program...]')
    .argument('[session]', 'its id, ses_…; without one a new session is made, also of a sample, and closed')
    .argument('[program...]', 'what to run instead of a shell')
    .option('--keep', 'keep the new session')
    .addHelpText('after', `${examples}\n${exitCodeHelp}`)
    .action((first: string | undefined, rest: string[], options: ShellOptions) =>
      shell(context, readSampleWord(program, first), first === undefined ? [] : [first, ...rest], options),
    );
  withCommonOptions(withCommandOptions(withSessionOptions(command)), context);
}

async function shell(
  context: Context,
  sample: SampleName | undefined,
  words: readonly string[],
  given: ShellOptions,
): Promise<void> {
  const named = words[0]?.startsWith('ses_') === true;
  const args = named || sample !== undefined ? words.slice(1) : words;
  if (args.length > 0 && given.command !== undefined)
    throw usageFailure('found both -c and a program', 'assay shell -- vi');
  const toRun = given.command ?? (args.length === 0 ? anyShell : args);
  const options = { ...given, tty: true };
  if (!named) return runInNewSession(context, toRun, options, sample);
  if (given.image !== undefined) throw usageFailure('found both a session and --image', `assay shell ${words[0]}`);
  return execInSession(context, words[0] as string, toRun, options);
}
