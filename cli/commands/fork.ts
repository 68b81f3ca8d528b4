import type { Command } from 'commander';
import { type SessionOptions, toCreateOptions, withCommonOptions, withLimitOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { collectAssignment, parseDuration } from '../option-value.ts';

export function addForkCommand(program: Command, context: Context): void {
  const command = program
    .command('fork')
    .description('make a session with the files that another has now, and print its id')
    .argument('<session>')
    .option('-e, --env <name=value>', "a variable beside or over the source's; repeatable", collectAssignment)
    .option('--idle-timeout <time>', 'close it after this long without a command', parseDuration)
    .action((id: string, options: ForkOptions) => forkSession(context, id, options));
  withCommonOptions(withLimitOptions(command), context);
}

interface ForkOptions extends SessionOptions {
  env?: Record<string, string>;
  idleTimeout?: number;
}

async function forkSession(context: Context, id: string, options: ForkOptions): Promise<void> {
  const source = await context.client().sessions.get(id);
  const { info } = await source.fork({
    ...toCreateOptions(options),
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.idleTimeout === undefined ? {} : { idleTimeoutMs: options.idleTimeout }),
  });
  context.print(info, () => info.id);
}
