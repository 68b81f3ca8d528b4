import type { Command } from 'commander';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { renderFields, renderSize, renderSpan } from '../table.ts';

export function addInfoCommand(program: Command, context: Context): void {
  const command = program
    .command('info')
    .description("show the server's version, capabilities, limits and workers")
    .action(() => showInfo(context));
  withCommonOptions(command, context);
}

async function showInfo(context: Context): Promise<void> {
  const client = context.client();
  const info = await client.server.info();
  const workers = await Array.fromAsync(client.workers.list());
  const { limits } = info;
  context.print({ endpoint: client.endpoint, ...info, workers }, () =>
    renderFields([
      ['endpoint', client.endpoint],
      ['version', info.version],
      ['capabilities', info.capabilities.join(', ')],
      ...workers.map((worker): [string, string] => [
        'worker',
        `${worker.id}: ${worker.state}, ${worker.sessionCount} of ${worker.sessionCapacity} sessions, ${worker.warmCount} of ${worker.warmCapacity} warm`,
      ]),
      ['sessions', limits && `${limits.sessionsPerProject} a project`],
      ['time to live', limits && `${renderSpan(limits.defaultTtlMs)}, at most ${renderSpan(limits.ttlMs)}`],
      ['command', limits && `at most ${renderSize(limits.commandBytes)}`],
      ['rate', limits && `${limits.requestsPerSecond} requests a second, ${limits.streamsPerKey} streams`],
    ]),
  );
}
