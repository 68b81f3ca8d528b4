import { StringDecoder } from 'node:string_decoder';
import type Docker from 'dockerode';
import type { Logger } from '../../shared/log.ts';
import { saidBy } from './engine-failure.ts';

const firstRetryMs = 100;
const lastRetryMs = 3_000;
const lineLimit = 1024 * 1024;

interface Watch {
  readonly docker: Docker;
  readonly log: Logger;
  readonly installation: string;
  died(id: string): void;
  onConnect(): void;
}

/** Follows the engine's events for ever; a broken stream is opened again. */
export function watchDeaths(watch: Watch): { close(): void } {
  const closing = new AbortController();
  let retryMs = firstRetryMs;
  let failedBefore = false;
  let timer: NodeJS.Timeout | undefined;

  const again = (error: unknown): void => {
    if (closing.signal.aborted) return;
    if (!failedBefore) watch.log.warn({ reason: saidBy(error) }, 'lost the event stream of the engine');
    failedBefore = true;
    timer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, lastRetryMs);
  };

  const connect = (): void => {
    openStream(watch, closing.signal)
      .then(async (stream) => {
        retryMs = firstRetryMs;
        watch.onConnect();
        failedBefore = false;
        await follow(stream, watch.died);
        again(new Error('the engine ended the stream'));
      })
      .catch(again);
  };

  connect();
  return {
    close() {
      closing.abort();
      clearTimeout(timer);
    },
  };
}

function openStream(watch: Watch, abortSignal: AbortSignal): Promise<NodeJS.ReadableStream> {
  return watch.docker.getEvents({
    filters: { type: ['container'], event: ['die'], label: [`dev.assay.installation=${watch.installation}`] },
    abortSignal,
  });
}

/** One JSON object a line. */
async function follow(stream: NodeJS.ReadableStream, died: (id: string) => void): Promise<void> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of stream) {
    rest += decoder.write(chunk as Buffer);
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > lineLimit) throw new Error(`an event of more than ${lineLimit} characters`);
    for (const line of lines) {
      const id = deadContainer(line);
      if (id !== undefined) died(id);
    }
  }
}

export function deadContainer(line: string): string | undefined {
  if (line.trim() === '') return undefined;
  const event = JSON.parse(line) as { Action?: unknown; Actor?: { ID?: unknown } };
  return event.Action === 'die' && typeof event.Actor?.ID === 'string' ? event.Actor.ID : undefined;
}
