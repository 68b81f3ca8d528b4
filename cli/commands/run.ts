import type { Command } from 'commander';
import {
  AssayError,
  type Program,
  type SampleName,
  type Session,
  type SessionInfo,
} from '../../clients/typescript/index.ts';
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
import { usageFailure } from '../failure.ts';
import { runInForeground } from '../foreground.ts';
import { listenForInterruption } from '../interruption.ts';
import { requireTerminal } from '../own-terminal.ts';
import { buildFirst } from '../sample-build.ts';
import { readSampleWord } from '../sample-name.ts';

type RunOptions = SessionOptions & CommandOptions & { keep?: boolean };

const examples = `
Examples:
  assay run -- python3 -c 'print(6 * 7)'     a program and its arguments
  assay run -c 'ls /etc | wc -l'             shell text
  assay run -- sha256sum < big.file          stdin is passed on
  assay run --allow example.org -- curl -sS https://example.org
                                             with a way to one host
  assay run -o json -- make                  one JSON document a line, for each event
  assay run examples/hello-fix               a session from a sample, kept, and its task
  assay run examples/hello-fix -- python3 -m unittest
                                             a command in such a session`;

export function addRunCommand(program: Command, context: Context): void {
  const command = program
    .command('run')
    .description('run a command in a new session, and close the session; or make a session from a sample')
    .usage('[options] [dataset/sample] [-- command...]')
    .argument('[command...]', 'a program and its arguments; one argument alone is shell text')
    .passThroughOptions()
    .option('--keep', 'keep the session')
    .addHelpText('after', `${examples}\n${exitCodeHelp}`)
    .action((args: string[], options: RunOptions) => run(context, readSampleWord(program, args[0]), args, options));
  withCommonOptions(withCommandOptions(withSessionOptions(command)), context);
}

async function run(
  context: Context,
  sample: SampleName | undefined,
  args: readonly string[],
  options: RunOptions,
): Promise<void> {
  if (sample === undefined) return runInNewSession(context, toProgram(args, options.command), options);
  const [separator, ...rest] = args.slice(1);
  if (separator !== undefined && separator !== '--' && separator.startsWith('-')) {
    const found = `found ${separator} behind the sample; expected options before it, and -- before a command`;
    const end = rest.indexOf('--');
    const [before, behind] = end < 0 ? [rest, []] : [rest.slice(0, end), rest.slice(end)];
    throw usageFailure(found, ['assay run', separator, ...before, args[0], ...behind].join(' '));
  }
  const command = separator === '--' ? rest : args.slice(1);
  if (command.length > 0 || options.command !== undefined) {
    return runInNewSession(context, toProgram(command, options.command), options, sample);
  }
  await buildFirst(context, sample);
  const { info } = await context.client().sessions.create({ ...toCreateOptions(options), sample });
  context.print(info, () => introduce(info));
}

function introduce({ id, sample }: SessionInfo): string {
  return [
    `session ${id}`,
    '',
    sample?.instruction.trim() ?? '',
    '',
    `assay exec ${id} -- ls        a command in it`,
    `assay shell ${id}             a terminal in it`,
    `assay verify ${id} --watch    the verdict on what was changed in it`,
    `assay sessions close ${id}    its end`,
  ].join('\n');
}

/** Runs a program in a session that is made for it and closed behind it. */
export async function runInNewSession(
  context: Context,
  toRun: Program,
  options: RunOptions,
  sample?: SampleName,
): Promise<void> {
  if (options.tty === true) requireTerminal(context);
  const interruption = listenForInterruption();
  try {
    if (sample !== undefined) await buildFirst(context, sample);
    const session = await context.client().sessions.create({ ...toCreateOptions(options), ...(sample && { sample }) });
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
