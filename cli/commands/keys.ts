import { type Command, InvalidArgumentError } from 'commander';
import type { ScopeName } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { renderTable } from '../table.ts';

const scopeNames: readonly ScopeName[] = ['AGENT', 'GRADER', 'ADMIN'];

export function addKeysCommand(program: Command, context: Context): void {
  const keys = program.command('keys').description('make and revoke API keys (needs an admin key)');
  const create = keys
    .command('create')
    .description('make a key and print it, this once')
    .option('--scope <scope>', 'agent, grader or admin; repeatable (default: agent)', collectScope)
    .option('--description <text>', 'what the key is for')
    .option('--project <name>', 'the project it belongs to (default: your own)')
    .action((options: CreateOptions) => createKey(context, options));
  const list = keys
    .command('ls')
    .description("list the project's keys")
    .option('--project <name>', "of another project, or '*' for all (needs an admin key of the project default)")
    .action((options: { project?: string }) => listKeys(context, options));
  const revoke = keys
    .command('revoke')
    .description('make a key useless at once')
    .argument('<key>', 'its id, the middle part of assay_<id>_<secret>')
    .action((id: string) => revokeKey(context, id));
  for (const command of [create, list, revoke]) withCommonOptions(command, context);
}

function collectScope(text: string, before: ScopeName[] = []): ScopeName[] {
  const scope = scopeNames.find((name) => name === text.toUpperCase());
  if (scope === undefined) throw new InvalidArgumentError('Give agent, grader or admin.');
  return [...before, scope];
}

interface CreateOptions {
  scope?: ScopeName[];
  description?: string;
  project?: string;
}

async function createKey(context: Context, { scope = ['AGENT'], description, project }: CreateOptions): Promise<void> {
  const made = await context.client().keys.create({
    scopes: scope,
    ...(description === undefined ? {} : { description }),
    ...(project === undefined ? {} : { project }),
  });
  context.print({ ...made.key, secret: made.secret }, () => made.secret);
  context.note(`assay: key ${made.key.id} of project ${made.key.project}; it is not shown again`);
}

async function listKeys(context: Context, options: { project?: string }): Promise<void> {
  const keys = await Array.fromAsync(context.client().keys.list(options));
  context.print(keys, () =>
    renderTable(
      ['KEY', 'PROJECT', 'SCOPES', 'CREATED', 'REVOKED', 'DESCRIPTION'],
      keys.map((key) => [
        key.id,
        key.project,
        key.scopes.join(',').toLowerCase(),
        key.createTime?.toISOString() ?? '',
        key.revokeTime?.toISOString() ?? '-',
        key.description,
      ]),
    ),
  );
}

async function revokeKey(context: Context, id: string): Promise<void> {
  const key = await context.client().keys.revoke(id);
  context.print(key, () => `${key.id} revoked`);
}
