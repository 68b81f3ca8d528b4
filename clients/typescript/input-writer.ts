import { AssayError } from './assay-error.ts';

/** Small enough for any request limit, large enough that the round trip does not matter. */
const pieceBytes = 512 * 1024;

/** The input of an execution. Writes are sent in order; each promise settles when the sandbox holds the bytes. */
export interface InputWriter {
  /** How many bytes were given so far, whether the sandbox has them yet or not. */
  readonly length: number;
  write(data: Uint8Array | string): Promise<void>;
  /** Ends the input, after a last piece if one is given. Ending it again, or after the program, does nothing. */
  end(data?: Uint8Array | string): Promise<void>;
}

/** What carries the pieces: WriteInput and CloseInput, repeated safely because each piece has its offset. */
export interface InputChannel {
  /** Settles once the execution has started; input sent earlier would find nobody. */
  ready(): Promise<unknown>;
  /** Returns the offset to write at next. */
  write(offset: number, data: Uint8Array, end: boolean): Promise<number>;
  close(): Promise<unknown>;
}

export function createInputWriter(channel: InputChannel): InputWriter {
  let position = 0;
  let given = 0;
  let ended = false;
  let queue: Promise<void> = Promise.resolve();

  async function send(data: Uint8Array, end: boolean): Promise<void> {
    await channel.ready();
    const target = position + data.length;
    const start = position;
    while (position < target) {
      const piece = data.subarray(position - start, position - start + pieceBytes);
      const last = position + piece.length === target;
      const next = await channel.write(position, piece, end && last);
      if (next < position || next > position + piece.length) {
        throw new AssayError('INPUT_OFFSET', `the server is at input byte ${next}, this client at ${position}`, {
          code: 'OUT_OF_RANGE',
        });
      }
      position = next;
    }
    if (end && data.length === 0) await channel.close();
  }

  function enqueue(data: Uint8Array, end: boolean): Promise<void> {
    given += data.length;
    const sent = queue.then(() => send(data, end));
    // The next write starts after this one even if it fails; its own offset check then tells.
    queue = sent.catch(() => undefined);
    return sent;
  }

  return {
    get length() {
      return given;
    },
    write(data) {
      if (ended) return Promise.reject(new AssayError('INPUT_CLOSED', 'the input was ended before this write'));
      return enqueue(toBytes(data), false);
    },
    async end(data = '') {
      if (ended) return queue;
      ended = true;
      try {
        await enqueue(toBytes(data), true);
      } catch (error) {
        if (!isEndOfProgram(error)) throw error;
      }
    },
  };
}

/** The program ended without reading all of its input: ordinary, as a broken pipe is between two programs. */
export function isEndOfProgram(error: unknown): boolean {
  return error instanceof AssayError && (error.reason === 'EXECUTION_ENDED' || error.reason === 'INPUT_NOT_OPEN');
}

function toBytes(data: Uint8Array | string): Uint8Array {
  return typeof data === 'string' ? Buffer.from(data) : data;
}
