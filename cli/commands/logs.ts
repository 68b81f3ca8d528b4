import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import type { ExecutionInfo, Session } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { createEventSink } from '../event-sink.ts';

const newExecutionsEveryMs = 500;

interface LogsOptions {
  follow?: boolean;
}

export function addLogsCommand(program: Command, context: Context): void {
  const command = program
    .command('logs')
    .description('print what executions of a session wrote, one after the other')
    .argument('<session>', 'its id, ses_…')
    .argument('[execution]', 'one execution only')
    .option('-f, --follow', 'go on while it runs, background output included, and with executions to come')
    .action((id: string, execution: string | undefined, options: LogsOptions) =>
      showLogs(context, id, execution, options.follow === true),
    );
  withCommonOptions(command, context);
}

async function showLogs(context: Context, id: string, executionId: string | undefined, follow: boolean): Promise<void> {
  const session = await context.client().sessions.get(id);
  if (executionId !== undefined) {
    return showExecution(context, session, await session.execution(executionId), follow);
  }
  const shown = new Set<string>();
  for (;;) {
    for await (const info of session.executions()) {
      if (shown.has(info.id)) continue;
      shown.add(info.id);
      context.note(`==> ${info.id} ${firstLine(info.summary)}`);
      await showExecution(context, session, info, follow);
    }
    if (!follow || (await session.refresh()).endTime !== undefined) return;
    await delay(newExecutionsEveryMs);
  }
}

/** Everything to the end, or without `follow` only what was written up to now. */
async function showExecution(context: Context, session: Session, info: ExecutionInfo, follow: boolean): Promise<void> {
  if (info.state === 'NOT_STARTED') return context.note('assay: it could not be started');
  const sink = createEventSink(context, { execution: info.id });
  const growing = info.state !== 'FINISHED' || info.background;
  const left = { stdout: info.stdoutBytes, stderr: info.stderrBytes };
  if (!follow && growing && left.stdout + left.stderr === 0) return;
  // What was written after the end of the command belongs to it as well.
  for await (const event of session.attach(info.id, { followBackground: true })) {
    await sink.write(event);
    if (event.type === 'stdout' || event.type === 'stderr') left[event.type] -= event.data.length;
    else if (event.type === 'gap') left[event.stream] -= event.to - event.from;
    if (!follow && growing && left.stdout <= 0 && left.stderr <= 0) return;
  }
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
