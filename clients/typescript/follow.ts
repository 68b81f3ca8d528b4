import { AssayError, toAssayError } from './assay-error.ts';
import type { Caller } from './caller.ts';
import type { EventReader } from './event-reader.ts';
import type { EventStream } from './event-stream.ts';
import type { ExecutionEvent } from './execution-event.ts';

/** Opens one stream of an execution's events: Execute or Attach, whichever fits what the reader has seen. */
export type OpenStream = (reader: EventReader) => EventStream;

/** A hole that stays after this many fresh streams is the server's fault and will not go away. */
const holesForgiven = 3;

/** Streams in a row that were answered and brought nothing new. A command may well be silent while servers die around it. */
const barrenStreamsForgiven = 100;

/**
 * Follows an execution to its end across broken streams, dead servers and restarts: whenever a stream ends before
 * Finished, opens another where the reader stands.
 */
export async function* followExecution(
  open: OpenStream,
  reader: EventReader,
  caller: Caller,
  signal: AbortSignal,
): AsyncGenerator<ExecutionEvent, void, undefined> {
  const patience = caller.patience();
  let holes = 0;
  let barrenStreams = 0;
  for (;;) {
    let stream: EventStream | undefined;
    let finished = false;
    const detach = () => stream?.close();
    signal.addEventListener('abort', detach);
    let failure: AssayError;
    try {
      signal.throwIfAborted();
      stream = open(reader);
      for (let batch = await stream.next(); batch !== undefined; batch = await stream.next()) {
        patience.answered();
        for (const received of batch) {
          const event = reader.read(received);
          if (event === undefined) continue;
          patience.progressed();
          barrenStreams = 0;
          if (event.type !== 'started' && event.type !== 'heartbeat') holes = 0;
          finished = event.type === 'finished';
          yield event;
          if (finished) return;
          signal.throwIfAborted();
        }
      }
      if (stream.more) continue;
      failure = new AssayError('CONNECTION_LOST', 'the stream ended before the execution did', {
        code: 'UNAVAILABLE',
        transient: true,
      });
    } catch (error) {
      failure = signal.aborted ? detached(signal) : toAssayError(error, caller.endpoint);
      if (failure.reason === 'OUTPUT_HOLE' && ++holes > holesForgiven) throw failure;
    } finally {
      signal.removeEventListener('abort', detach);
      if (finished) stream?.leave();
      else stream?.close();
    }
    if (++barrenStreams > barrenStreamsForgiven) throw failure;
    await patience.wait(failure, signal);
  }
}

function detached(signal: AbortSignal): AssayError {
  return new AssayError('DETACHED', 'the caller stopped following; the command goes on', {
    code: 'CANCELED',
    cause: signal.reason,
  });
}
