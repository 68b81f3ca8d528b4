import { type AwaitingInput, AwaitingInputKind, type Gap, OutputStream } from '../../gen/assay/v1/execution_pb.js';
import { AssayError } from './assay-error.ts';
import { type AwaitingKind, type ExecutionEvent, type ExecutionResult, toResult } from './execution-event.ts';
import { createOutputCursor } from './output-cursor.ts';
import type { ReceivedEvent } from './received-event.ts';
import { toDate } from './time.ts';

export interface Offsets {
  readonly stdout: number;
  readonly stderr: number;
}

/** Reads an execution's events across any number of streams and gives each byte once. */
export interface EventReader {
  /** Whether the execution is known to run: from here on Attach finds it. */
  readonly started: boolean;
  readonly offsets: Offsets;
  /** What is new in an event, or undefined. Throws a transient OUTPUT_HOLE where bytes are missing. */
  read(event: ReceivedEvent): ExecutionEvent | undefined;
}

export function createEventReader(from: Offsets, alreadyStarted: boolean): EventReader {
  const stdout = createOutputCursor('stdout', from.stdout);
  const stderr = createOutputCursor('stderr', from.stderr);
  let started = alreadyStarted;
  let toldStarted = false;
  let toldAwaiting = '';

  function readGap(gap: Gap): ExecutionEvent | undefined {
    const stream = gap.stream === OutputStream.STDERR ? 'stderr' : 'stdout';
    const fresh = (stream === 'stderr' ? stderr : stdout).skip(Number(gap.startOffset), Number(gap.endOffset));
    return fresh && { type: 'gap', stream, ...fresh };
  }

  /** Every new stream tells of a wait that goes on; here it is told once. */
  function readAwaiting({ kind, inputBytes }: AwaitingInput): ExecutionEvent | undefined {
    const wait = [kind, inputBytes, stdout.position, stderr.position].join();
    if (wait === toldAwaiting) return undefined;
    toldAwaiting = wait;
    const name = AwaitingInputKind[kind] as AwaitingKind;
    return { type: 'awaitingInput', kind: name, inputBytes: Number(inputBytes) };
  }

  /** A result that counts more bytes than arrived came on a stream that lost some. */
  function checkComplete(result: ExecutionResult): void {
    if (stdout.position >= result.stdoutBytes && stderr.position >= result.stderrBytes) return;
    throw new AssayError(
      'OUTPUT_HOLE',
      `the execution ended after ${result.stdoutBytes} bytes of stdout and ${result.stderrBytes} of stderr, ` +
        `but only ${stdout.position} and ${stderr.position} arrived`,
      { code: 'DATA_LOSS', transient: true },
    );
  }

  return {
    get started() {
      return started;
    },
    get offsets() {
      return { stdout: stdout.position, stderr: stderr.position };
    },
    read(event) {
      switch (event.case) {
        case 'stdout':
        case 'stderr': {
          const offset = Number(event.value.offset);
          const cursor = event.case === 'stdout' ? stdout : stderr;
          const data = cursor.take(offset, event.value.data);
          return data && { type: event.case, offset: cursor.position - data.length, data };
        }
        case 'started': {
          started = true;
          if (toldStarted) return undefined;
          toldStarted = true;
          return { type: 'started', startTime: toDate(event.value.startTime) };
        }
        case 'gap':
          return readGap(event.value);
        case 'awaitingInput':
          return readAwaiting(event.value);
        case 'heartbeat':
          return { type: 'heartbeat' };
        case 'finished': {
          if (event.value.result === undefined) {
            throw new AssayError('INTERNAL', 'the server sent an end without a result');
          }
          const result = toResult(event.value.result);
          checkComplete(result);
          return { type: 'finished', result };
        }
        default:
          // Events of a newer server that this client does not know carry no output bytes.
          return undefined;
      }
    },
  };
}
