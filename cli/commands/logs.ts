import type { Command } from 'commander';
import type { Session } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { createEventSink } from '../event-sink.ts';
import { createSessionEventSink } from '../session-event-sink.ts';

interface LogsOptions {
  follow?: boolean;
  cursor?: string;
}

export function addLogsCommand(program: Command, context: Context): void {
  const command = program
    .command('logs')
    .description('print what happened in a session, in order, also after it has ended')
    .argument('<session>', 'its id, ses_…')
    .argument('[execution]', 'one execution only')
    .option('-f, --follow', 'go on with what happens until the session, or the execution, has ended')
    .option('--cursor <cursor>', 'go on after the event that had this cursor (see -o json)')
    .action((id: string, execution: string | undefined, options: LogsOptions) =>
      showLogs(context, id, execution, options),
    );
  withCommonOptions(command, context);
}

async function showLogs(
  context: Context,
  id: string,
  executionId: string | undefined,
  { follow = false, cursor }: LogsOptions,
): Promise<void> {
  const session = await context.client().sessions.get(id);
  const from = cursor === undefined ? {} : { cursor };
  if (follow && executionId !== undefined && session.info.endTime === undefined) {
    return followExecution(context, session, executionId);
  }
  const sink = createSessionEventSink(context);
  const events =
    follow && executionId === undefined
      ? session.follow(from)
      : session.transcript({ ...from, ...(executionId === undefined ? {} : { executionId }) });
  for await (const event of events) if (event.type !== 'heartbeat') await sink.write(event);
}

/** Everything to the end of its last background process. */
async function followExecution(context: Context, session: Session, executionId: string): Promise<void> {
  const sink = createEventSink(context, { execution: executionId });
  for await (const event of session.attach(executionId, { followBackground: true })) await sink.write(event);
}
