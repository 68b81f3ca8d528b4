import type { Command } from 'commander';
import type { WorkerInfo } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { renderTable } from '../table.ts';

export function addWorkersCommand(program: Command, context: Context): void {
  const workers = program
    .command('workers')
    .description('show the workers, take one out of service, and give up one that is gone for good');
  const add = (name: string, description: string, action: (id: string) => Promise<void>): Command =>
    workers
      .command(name)
      .description(`${description} (needs an operator's admin key)`)
      .argument('<worker>', 'its id, as assay workers ls shows it')
      .action(action);
  const commands = [
    workers
      .command('ls')
      .description('list the workers')
      .action(() => listWorkers(context)),
    add('drain', 'have a worker take no new sessions; those it has live on', (id) => drainWorker(context, id)),
    add('undrain', 'have a drained worker take sessions again', (id) => undrainWorker(context, id)),
    add('forget', 'give up a worker that will not come back: its sessions are LOST', (id) => forgetWorker(context, id)),
  ];
  for (const command of commands) withCommonOptions(command, context);
}

async function listWorkers(context: Context): Promise<void> {
  const workers = await Array.fromAsync(context.client().workers.list());
  context.print(workers, () =>
    renderTable(
      ['WORKER', 'STATE', 'SESSIONS', 'CAPACITY', 'WARM', 'CAPABILITIES'],
      workers.map((worker) => [
        worker.id,
        stateOf(worker),
        String(worker.sessionCount),
        String(worker.sessionCapacity),
        `${worker.warmCount}/${worker.warmCapacity}`,
        worker.capabilities.join(','),
      ]),
    ),
  );
}

function stateOf({ state, drained }: WorkerInfo): string {
  return drained && state !== 'DRAINED' ? `${state} (drained)` : state;
}

async function drainWorker(context: Context, id: string): Promise<void> {
  const worker = await context.client().workers.drain(id);
  context.print(worker, () => `${id} takes no new sessions, and has ${worker.sessionCount}`);
}

async function undrainWorker(context: Context, id: string): Promise<void> {
  const worker = await context.client().workers.undrain(id);
  context.print(worker, () => `${id} takes sessions again`);
}

async function forgetWorker(context: Context, id: string): Promise<void> {
  const { lostSessionCount } = await context.client().workers.forget(id);
  context.print({ id, lostSessionCount }, () => `${id} forgotten, ${lostSessionCount} sessions LOST`);
}
