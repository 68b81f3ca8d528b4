import type { Command } from 'commander';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { renderFields, renderSize, renderSpan } from '../table.ts';

export function addInfoCommand(program: Command, context: Context): void {
  const command = program
    .command('info')
    .description("show the server's version, limits and workers")
    .action(() => showInfo(context));
  withCommonOptions(command, context);
}

async function showInfo(context: Context): Promise<void> {
  const client = context.client();
  const info = await client.server.info();
  const { limits } = info;
  context.print({ endpoint: client.endpoint, ...info }, () =>
    renderFields([
      ['endpoint', client.endpoint],
      ['version', info.version],
      ['capabilities', info.capabilities.join(', ')],
      ...info.workers.map(({ id, sessions, capacity, warm, warmCapacity, reachable }): [string, string] => [
        'worker',
        `${id}: ${sessions} of ${capacity} sessions, ${warm} of ${warmCapacity} warm${reachable ? '' : ', does not answer'}`,
      ]),
      ['sessions', limits && `${limits.sessionsPerProject} a project`],
      ['time to live', limits && `${renderSpan(limits.defaultTtlMs)}, at most ${renderSpan(limits.ttlMs)}`],
      ['command', limits && `at most ${renderSize(limits.commandBytes)}`],
      ['rate', limits && `${limits.requestsPerSecond} requests a second, ${limits.streamsPerKey} streams`],
    ]),
  );
}
