import type { SessionEvent } from '../clients/typescript/index.ts';
import type { Context } from './context.ts';
import { createOutlet, textOrBase64 } from './event-sink.ts';
import { describeEnd } from './exit-code.ts';

/** Where the events of a session go; each promise settles when there is room for more. */
export interface SessionEventSink {
  write(event: SessionEvent): Promise<void>;
}

/**
 * Output to our own stdout and stderr exactly as it came, with a line on stderr wherever another execution begins to
 * speak; or one JSON document a line for each event.
 */
export function createSessionEventSink(context: Context): SessionEventSink {
  const stdout = createOutlet(context.stdout);
  const stderr = createOutlet(context.stderr);
  if (context.format === 'json') return { write: (event) => stdout(`${JSON.stringify(toJson(event))}\n`) };
  const summaries = new Map<string, string>();
  let speaking: string | undefined;

  function announce(executionId: string): void {
    if (speaking === executionId) return;
    speaking = executionId;
    context.note(`==> ${executionId} ${firstLine(summaries.get(executionId) ?? '')}`.trimEnd());
  }

  return {
    async write(event) {
      if (event.type === 'state' && event.message !== '') {
        context.note(`assay: the session is ${event.state}: ${event.message}`);
      } else if (event.type === 'shell') context.note(`assay: shell ${event.shellId} ${event.change.toLowerCase()}`);
      else if (event.type === 'verification') {
        context.note(`assay: verification ${event.verificationId} ${event.verdict ?? event.state}`);
      } else if (event.type === 'missing') context.note(`assay: ${event.message}`);
      else if ('executionId' in event) {
        if (event.type === 'started' || event.type === 'refused') summaries.set(event.executionId, event.summary);
        announce(event.executionId);
        if (event.type === 'stdout') await stdout(event.data);
        else if (event.type === 'stderr') await stderr(event.data);
        else for (const line of remarks(event)) context.note(`assay: ${line}`);
        if (event.type === 'finished') summaries.delete(event.executionId);
      }
    },
  };
}

function* remarks(event: SessionEvent): Generator<string> {
  if (event.type === 'gap')
    yield `${event.endOffset - event.startOffset} bytes of ${event.stream} are missing here: more than is kept`;
  if (event.type === 'refused') yield `it could not be started: ${event.message}`;
  if (event.type !== 'finished') return;
  const sentence = describeEnd(event.result);
  if (sentence !== undefined) yield sentence;
  else if (event.result.exitCode) yield `exit code ${event.result.exitCode}`;
}

function toJson(event: SessionEvent): object {
  if (!('executionId' in event)) return event;
  const { time, cursor, executionId: execution, ...rest } = event;
  const placed = { time, cursor, execution };
  if (rest.type === 'finished') return { ...placed, type: rest.type, ...rest.result };
  if (rest.type !== 'stdout' && rest.type !== 'stderr') return { ...placed, ...rest };
  return { ...placed, type: rest.type, offset: rest.offset, ...textOrBase64(rest.data) };
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0] ?? '';
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
