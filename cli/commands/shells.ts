import type { Command } from 'commander';
import type { ShellInfo } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { collectAssignment } from '../option-value.ts';
import { renderSpan, renderTable } from '../table.ts';

export function addShellsCommand(program: Command, context: Context): void {
  const shells = program.command('shells').description('see, open and close the shells of a session');
  const list = shells
    .command('ls')
    .description('list the open shells of a session, oldest first')
    .argument('<session>', 'its id, ses_…')
    .option('-a, --all', 'also those that were closed')
    .action((id: string, options: { all?: boolean }) => listShells(context, id, options.all === true));
  const open = shells
    .command('open')
    .description('open a shell and print its id; commands in it keep directory, variables and functions')
    .argument('<session>', 'its id, ses_…')
    .argument('[program...]', 'the shell and its arguments (default: bash where the image has it, else sh)')
    .option('--id <id>', 'an id of your own')
    .option('-e, --env <name=value>', 'a variable; repeatable', collectAssignment)
    .option('-w, --cwd <path>', 'the directory to start in')
    .action((id: string, words: string[], options: OpenOptions) => openShell(context, id, words, options));
  const close = shells
    .command('close')
    .description('close shells: what they started is ended, what waits for them does not run')
    .argument('<session>', 'its id, ses_…')
    .argument('<shell...>')
    .action((id: string, names: string[]) => closeShells(context, id, names));
  for (const command of [list, open, close]) withCommonOptions(command, context);
}

interface OpenOptions {
  id?: string;
  env?: Record<string, string>;
  cwd?: string;
}

async function listShells(context: Context, id: string, all: boolean): Promise<void> {
  const session = await context.client().sessions.get(id);
  const shells = (await Array.fromAsync(session.shells())).filter(({ state }) => all || state === 'OPEN');
  const now = Date.now();
  context.print(shells, () =>
    renderTable(
      ['SHELL', 'STATE', 'AGE', 'PROGRAM', 'OPENED', 'RUNNING', 'WAITING'],
      shells.map((info) => [
        info.id,
        info.state,
        info.createTime === undefined ? '' : renderSpan(now - info.createTime.getTime()),
        info.program.join(' ') || '(default)',
        String(info.openCount),
        info.runningExecutionId ?? '-',
        String(info.queuedExecutionCount),
      ]),
    ),
  );
}

async function openShell(context: Context, id: string, program: string[], options: OpenOptions): Promise<void> {
  const session = await context.client().sessions.get(id);
  const { info } = await session.openShell({ program, ...options });
  context.print(info, () => info.id);
}

async function closeShells(context: Context, id: string, names: string[]): Promise<void> {
  const session = await context.client().sessions.get(id);
  const closed: ShellInfo[] = [];
  for (const name of names) closed.push(await (await session.shell(name)).close());
  context.print(closed, () => closed.map((info) => `${info.id} ${info.state}`).join('\n'));
}
