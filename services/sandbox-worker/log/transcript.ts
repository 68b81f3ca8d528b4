import { create } from '@bufbuild/protobuf';
import { sizeDelimitedEncode } from '@bufbuild/protobuf/wire';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { type SessionEvent, SessionEventSchema } from '../../../gen/assay/v1/session_pb.js';
import type { Stream } from '../guest/frame.ts';
import { formatCursor, logStart } from './log-cursor.ts';
import { createLogReader, type LogSource, type ReadableExecution } from './log-reader.ts';

/** The log of a session that has ended. */
export interface CompleteLog extends LogSource {
  /** How much of the journal there is. */
  readonly size: number;
  readonly executionCount: number;
  /** What each output stream takes of the disk. */
  heldBytes(): Iterable<number>;
}

/** What was run is shortened to no less than this when there is very much of it. */
const leastSummaryBytes = 128;

/**
 * A log as it is archived: its events one after the other, each with its length before it, the bytes in them. Output over
 * `limitBytes` is left out where it hurts least: every stream keeps the same share at most, half of it from the beginning
 * and half from the end, and a gap tells what is missing. What is left can still be much; past twice the limit it ends.
 */
export async function* writeTranscript(
  log: CompleteLog,
  limitBytes: number,
  turn: () => Promise<void> | undefined = () => undefined,
): AsyncGenerator<Uint8Array, void> {
  const shareBytes = fairShare(log.heldBytes(), limitBytes);
  const summaryBytes = Math.max(leastSummaryBytes, Math.floor(limitBytes / 8 / Math.max(1, log.executionCount)));
  const reader = createLogReader(log, {
    cursor: logStart,
    withoutOutput: false,
    number: undefined,
    separateGaps: true,
    omitted: (execution, stream) => omission(execution, stream, shareBytes),
  });
  let written = 0;
  try {
    for (const event of reader.read(log.size)) {
      const wait = turn();
      if (wait !== undefined) await wait;
      if (event === undefined) continue;
      const bytes = sizeDelimitedEncode(SessionEventSchema, shortened(event, summaryBytes));
      written += bytes.length;
      if (written > 2 * limitBytes) {
        yield sizeDelimitedEncode(SessionEventSchema, endedEarly(reader.cursor, limitBytes));
        return;
      }
      yield bytes;
    }
  } finally {
    reader.close();
  }
}

/** How long the transcript will be, about: the output, and an event for each record. Not less in most cases. */
export function transcriptBytes(log: CompleteLog, limitBytes: number): number {
  let output = 0;
  for (const held of log.heldBytes()) output += held;
  return Math.min(2 * limitBytes, Math.min(output, limitBytes) + 2 * log.size);
}

/** The largest share so that everybody's part, what they have or the share, stays within the limit together. */
export function fairShare(sizes: Iterable<number>, limit: number): number {
  const sorted = [...sizes].sort((a, b) => a - b);
  let left = limit;
  for (const [index, size] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - index));
    if (size > share) return share;
    left -= size;
  }
  return Number.POSITIVE_INFINITY;
}

function omission(execution: ReadableExecution, stream: Stream, shareBytes: number) {
  const { held, total } = execution.spool(stream);
  if (held <= shareBytes) return undefined;
  const half = Math.floor(shareBytes / 2);
  return { from: half, to: Math.max(half, total - half) };
}

function shortened(event: SessionEvent, limit: number): SessionEvent {
  if (event.event.case !== 'execution') return event;
  const what = event.event.value.event;
  if (what.case === 'started' || what.case === 'refused') {
    const bytes = Buffer.from(what.value.summary);
    // Streaming leaves out a character that was cut in half.
    if (bytes.length > limit) what.value.summary = new TextDecoder().decode(bytes.subarray(0, limit), { stream: true });
  }
  return event;
}

function endedEarly(cursor: { position: number; offset: number }, limitBytes: number): SessionEvent {
  const message = `the transcript ends here: it is longer than twice the ${limitBytes} bytes that are archived of one`;
  return create(SessionEventSchema, {
    time: timestampNow(),
    cursor: formatCursor(cursor),
    event: { case: 'missing', value: { message } },
  });
}
