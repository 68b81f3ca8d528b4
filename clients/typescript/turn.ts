import { createCollector } from './collector.ts';
import type { AwaitingKind, ExecutionEvent, ExecutionResult } from './execution-event.ts';

const outputBytes = 64 * 1024 * 1024;

/** What a program wrote until it waited for input, or ended. */
export interface Turn {
  /** At most 64 MiB of each stream. On a terminal all output is stdout. */
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** How the program was seen to wait; undefined if it ended. */
  readonly awaiting: AwaitingKind | undefined;
  /** How it ended; undefined if it waits. */
  readonly result: ExecutionResult | undefined;
}

/** Reads on until the program waits with all of the given input taken: one that waited for it does not count. */
export async function readTurn(
  events: AsyncIterator<ExecutionEvent, void, undefined>,
  givenBytes: () => number,
): Promise<Turn> {
  const streams = { stdout: createCollector(outputBytes), stderr: createCollector(outputBytes) };
  const turn = (awaiting?: AwaitingKind, result?: ExecutionResult): Turn => ({
    stdout: streams.stdout.bytes(),
    stderr: streams.stderr.bytes(),
    awaiting,
    result,
  });
  for (;;) {
    const { done, value: event } = await events.next();
    if (done === true) return turn();
    if (event.type === 'stdout' || event.type === 'stderr') streams[event.type].add(event.data);
    else if (event.type === 'finished') return turn(undefined, event.result);
    else if (event.type === 'awaitingInput' && event.inputBytes >= givenBytes()) return turn(event.kind);
  }
}
