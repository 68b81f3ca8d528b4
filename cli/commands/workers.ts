import type { Command } from 'commander';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { renderTable } from '../table.ts';

export function addWorkersCommand(program: Command, context: Context): void {
  const workers = program.command('workers').description('show the workers, and give up one that is gone for good');
  const list = workers
    .command('ls')
    .description('list the workers')
    .action(() => listWorkers(context));
  const forget = workers
    .command('forget')
    .description("give up a worker that will not come back: its sessions are LOST (needs an operator's admin key)")
    .argument('<worker>', 'its id, as assay workers ls shows it')
    .action((id: string) => forgetWorker(context, id));
  for (const command of [list, forget]) withCommonOptions(command, context);
}

async function listWorkers(context: Context): Promise<void> {
  const { workers } = await context.client().server.info();
  context.print(workers, () =>
    renderTable(
      ['WORKER', 'ANSWERS', 'SESSIONS', 'CAPACITY', 'WARM', 'CAPABILITIES'],
      workers.map(({ id, reachable, sessions, capacity, warm, warmCapacity, capabilities }) => [
        id,
        reachable ? 'yes' : 'no',
        String(sessions),
        String(capacity),
        `${warm}/${warmCapacity}`,
        capabilities.join(','),
      ]),
    ),
  );
}

async function forgetWorker(context: Context, id: string): Promise<void> {
  const { sessionsLost } = await context.client().server.forgetWorker(id);
  context.print({ id, sessionsLost }, () => `${id} forgotten, ${sessionsLost} sessions LOST`);
}
