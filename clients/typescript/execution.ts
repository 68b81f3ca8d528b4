import { AssayError } from './assay-error.ts';
import type { ExecutionEvent, ExecutionResult } from './execution-event.ts';
import type { InputWriter } from './input-writer.ts';

/**
 * One command, followed. Iterate it for its events, or ask for the result alone. It can be read once; the session's
 * `attach` reads it again from any offset. Leaving the iteration does not end the command.
 */
export interface Execution extends AsyncIterable<ExecutionEvent> {
  readonly id: string;
  readonly sessionId: string;
  /** Settles when the command runs, or with the reason why it could not be started. */
  readonly started: Promise<void>;
  /** The command's input; it takes bytes only if the execution was made with `input: true`. */
  readonly stdin: InputWriter;
  /** The result. Reads and drops the events if nobody iterates. */
  result(): Promise<ExecutionResult>;
  /** Sends a signal, by number, to the command's process group. */
  signal(number: number): Promise<void>;
  /** Ends every process of the command: TERM, two seconds, KILL. The result then says CANCELLED. */
  cancel(): Promise<void>;
  /** Stops following. The command goes on. */
  detach(): void;
}

export interface ExecutionParts {
  readonly id: string;
  readonly sessionId: string;
  readonly events: AsyncGenerator<ExecutionEvent, void, undefined>;
  readonly stdin: (started: () => Promise<void>) => InputWriter;
  readonly signal: (number: number) => Promise<void>;
  readonly cancel: () => Promise<void>;
  readonly detach: () => void;
}

export function createExecution(parts: ExecutionParts): Execution {
  const result = quiet(Promise.withResolvers<ExecutionResult>());
  // The first event is asked for at once: this sends the command, and writing input can wait for the start.
  const first = parts.events.next();
  const started = first.then(() => undefined);
  started.catch((error) => result.reject(error));
  let consumed = false;
  let finished = false;

  async function* iterate(): AsyncGenerator<ExecutionEvent, void, undefined> {
    try {
      for (let step = await first; step.done !== true; step = await parts.events.next()) {
        if (step.value.type === 'finished') {
          finished = true;
          result.resolve(step.value.result);
        }
        yield step.value;
      }
    } catch (error) {
      result.reject(error);
      throw error;
    } finally {
      await parts.events.return();
      if (!finished) result.reject(new AssayError('DETACHED', 'the reader left before the end', { code: 'CANCELED' }));
    }
  }

  function events(): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (consumed) {
      throw new AssayError('ALREADY_CONSUMED', `execution ${parts.id} is being read already; use session.attach`);
    }
    consumed = true;
    return iterate();
  }

  async function drain(): Promise<void> {
    for await (const _ of events()) {
      // Only the result is wanted.
    }
  }

  return {
    id: parts.id,
    sessionId: parts.sessionId,
    started,
    stdin: parts.stdin(() => started),
    [Symbol.asyncIterator]: events,
    result() {
      if (!consumed) drain().catch(() => undefined);
      return result.promise;
    },
    signal: parts.signal,
    cancel: parts.cancel,
    detach: parts.detach,
  };
}

/** A promise that nobody may ever ask for must not end the process when it is rejected. */
function quiet<T>(resolvers: PromiseWithResolvers<T>): PromiseWithResolvers<T> {
  resolvers.promise.catch(() => undefined);
  return resolvers;
}
