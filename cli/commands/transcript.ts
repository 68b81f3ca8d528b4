import type { Command } from 'commander';
import type { TranscriptEvent } from '../../clients/typescript/index.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { createOutlet } from '../event-sink.ts';
import { describeEnd } from '../exit-code.ts';
import { createSessionEventSink } from '../session-event-sink.ts';

interface TranscriptOptions {
  /** False with --no-bytes. */
  bytes: boolean;
}

export function addTranscriptCommand(program: Command, context: Context): void {
  const command = program
    .command('transcript')
    .description('print a session as one document: commands, times, what they wrote and how they ended')
    .argument('<session>', 'its id, ses_…; it may have ended')
    .argument('[execution]', 'one execution only')
    .option('--no-bytes', 'leave out what they wrote')
    .action((id: string, execution: string | undefined, options: TranscriptOptions) =>
      showTranscript(context, id, execution, options.bytes),
    );
  withCommonOptions(command, context);
}

async function showTranscript(
  context: Context,
  id: string,
  executionId: string | undefined,
  output: boolean,
): Promise<void> {
  const session = await context.client().sessions.get(id);
  const events = session.transcript({ output, ...(executionId === undefined ? {} : { executionId }) });
  const write = context.format === 'json' ? createSessionEventSink(context).write : createPage(context);
  for await (const event of events) await write(event);
}

/** Everything goes to stdout: the document is what was asked for, both streams of every command in it. */
function createPage(context: Context): (event: TranscriptEvent) => Promise<void> {
  const write = createOutlet(context.stdout);
  let speaking: string | undefined;
  let lineOpen = false;

  async function line(text: string): Promise<void> {
    await write(`${lineOpen ? '\n' : ''}${text}\n`);
    lineOpen = false;
  }

  return async (event) => {
    const time = event.time?.toISOString() ?? '';
    const { executionId } = event;
    if (event.type === 'started' || event.type === 'refused')
      await line(`--- ${time} ${executionId}\n$ ${event.summary}`);
    else if (speaking !== executionId) await line(`--- ${time} ${executionId} goes on`);
    speaking = executionId;
    if (event.type === 'stdout' || event.type === 'stderr') {
      await write(event.data);
      lineOpen = event.data.at(-1) !== 10;
    } else if (event.type === 'gap')
      await line(`--- ${event.endOffset - event.startOffset} bytes of ${event.stream} were not kept`);
    else if (event.type === 'refused') await line(`--- it could not be started: ${event.message}`);
    else if (event.type === 'finished') await line(`--- ${time} ${executionId} ${endOf(event)}`);
  };
}

function endOf({ result }: Extract<TranscriptEvent, { type: 'finished' }>): string {
  const how = describeEnd(result) ?? `exit code ${result.exitCode}`;
  return `${how}, ${(result.durationMs / 1000).toFixed(3)} s`;
}
