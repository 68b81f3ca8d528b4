import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import type { ExecutionEvent } from '../clients/typescript/index.ts';
import type { Context } from './context.ts';
import { writeFailure } from './failure.ts';

/** Where the events of an execution go; each promise settles when there is room for more. */
export interface EventSink {
  write(event: ExecutionEvent): Promise<void>;
}

/** Bytes to our own stdout and stderr exactly as they came, or one JSON document a line for each event. */
export function createEventSink(context: Context, extra: Readonly<Record<string, string>> = {}): EventSink {
  const stdout = createOutlet(context.stdout);
  const stderr = createOutlet(context.stderr);
  if (context.format === 'json') {
    return {
      write: async (event) => {
        if (event.type !== 'heartbeat') await stdout(`${JSON.stringify({ ...extra, ...toJson(event) })}\n`);
      },
    };
  }
  return {
    async write(event) {
      if (event.type === 'stdout') await stdout(event.data);
      else if (event.type === 'stderr') await stderr(event.data);
      else if (event.type === 'gap') {
        context.note(
          `assay: ${event.endOffset - event.startOffset} bytes of ${event.stream} are missing here: more than is kept`,
        );
      }
    },
  };
}

/** Text where it is text, base64 where it is not: nothing is lost either way. */
function toJson(event: ExecutionEvent): object {
  if (event.type === 'finished') return { type: event.type, ...event.result };
  if (event.type !== 'stdout' && event.type !== 'stderr') return event;
  const { type, offset } = event;
  return { type, offset, ...textOrBase64(event.data) };
}

export function textOrBase64(data: Uint8Array): { text: string } | { base64: string } {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return isUtf8(bytes) ? { text: bytes.toString() } : { base64: bytes.toString('base64') };
}

export function createOutlet(stream: Writable): (data: Uint8Array | string) => Promise<void> {
  return async (data) => {
    if (stream.destroyed || stream.errored) throw writeFailure(stream.errored);
    if (stream.write(data)) return;
    // A stream that fails emits no drain, and one to a file does not keep its error.
    const gone = new AbortController();
    let told: Error | null = null;
    const onClose = () => gone.abort();
    const onError = (error: Error) => {
      told = error;
      gone.abort();
    };
    stream.once('close', onClose);
    stream.once('error', onError);
    try {
      await once(stream, 'drain', { signal: gone.signal });
    } catch {
      throw writeFailure(told ?? stream.errored);
    } finally {
      stream.off('close', onClose);
      stream.off('error', onError);
    }
  };
}
