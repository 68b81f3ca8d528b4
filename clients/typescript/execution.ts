import { AssayError } from './assay-error.ts';
import type { ExecutionEvent, ExecutionResult } from './execution-event.ts';
import type { InputWriter } from './input-writer.ts';
import { readTurn, type Turn } from './turn.ts';

/**
 * One command, followed. Iterate it for its events, or ask for the result alone. It can be read once; the session's
 * `attach` reads it again from any offset. Leaving the iteration does not end the command.
 */
export interface Execution extends AsyncIterable<ExecutionEvent> {
  readonly id: string;
  readonly sessionId: string;
  /** Settles when the command runs, or with the reason why it could not be started. */
  readonly started: Promise<void>;
  /** The command's input; it takes bytes only if the execution was made with `input: true` or a terminal. */
  readonly stdin: InputWriter;
  /** The result. Reads and drops the events if nobody iterates. */
  result(): Promise<ExecutionResult>;
  /**
   * Reads until the command waits for input with all that was given taken, or ends; returns what it wrote meanwhile.
   * Write, and call it again for the next. Do not iterate beside it.
   */
  awaitingInput(): Promise<Turn>;
  /** Gives the command's terminal a new size. */
  resize(size: TerminalSize): Promise<void>;
  /** Sends a signal, by number, to the command's process group. */
  signal(number: number): Promise<void>;
  /** Ends every process of the command: TERM, two seconds, KILL. The result then says CANCELLED. */
  cancel(): Promise<void>;
  /** Stops following. The command goes on. */
  detach(): void;
}

/** The size of a terminal in characters, each 1 to 1,000. */
export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

export interface ExecutionParts {
  readonly id: string;
  readonly sessionId: string;
  readonly events: AsyncGenerator<ExecutionEvent, void, undefined>;
  readonly stdin: (started: () => Promise<void>) => InputWriter;
  readonly resize: (size: TerminalSize) => Promise<void>;
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
  let turns: AsyncGenerator<ExecutionEvent, void, undefined> | undefined;
  const stdin = parts.stdin(() => started);

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

  async function drain(rest: AsyncIterable<ExecutionEvent>): Promise<void> {
    for await (const _ of rest) {
      // Only the result is wanted.
    }
  }

  return {
    id: parts.id,
    sessionId: parts.sessionId,
    started,
    stdin,
    [Symbol.asyncIterator]: events,
    result() {
      if (turns !== undefined || !consumed) drain(turns ?? events()).catch(() => undefined);
      return result.promise;
    },
    awaitingInput() {
      turns ??= events();
      return readTurn(turns, () => stdin.length);
    },
    resize: parts.resize,
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
