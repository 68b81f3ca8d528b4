import { closeSync, openSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { SessionEvent } from '../../../gen/assay/v1/session_pb.js';
import { type JournalEntry, readJournal } from '../execution/journal-reader.ts';
import type { Spool } from '../execution/spool.ts';
import type { Stream } from '../guest/frame.ts';
import type { LogCursor } from './log-cursor.ts';
import { eventOf, gapOf, type LogEvent, type LoggedExecution, outputOf, toSessionEvent } from './log-event.ts';
import { decodeOutput, type OutputExtent } from './log-record.ts';

/** What the log needs to know of an execution. */
export interface ReadableExecution extends LoggedExecution {
  readonly drained: boolean;
  spool(stream: Stream): Spool;
  /** The reader is done with the spool for now. */
  rest(): void;
}

/** Where a log is: the journal for the order, the executions for their names and bytes. */
export interface LogSource {
  readonly path: string;
  execution(number: bigint): ReadableExecution | undefined;
}

export interface LogQuery {
  readonly cursor: LogCursor;
  readonly withoutOutput: boolean;
  /** Only this execution's events. */
  readonly number: bigint | undefined;
  /** Each record's gap is told by itself, so that a cursor from elsewhere falls between them. */
  readonly separateGaps?: boolean;
  /** The part of a stream that is told as a gap although it is there. */
  readonly omitted?: (execution: ReadableExecution, stream: Stream) => { from: number; to: number } | undefined;
}

/** One reader of a log, with a place of its own. It holds one piece of the journal and one of output at a time. */
export interface LogReader {
  readonly cursor: LogCursor;
  /**
   * The events up to `end`, a position in the journal. Undefined: a good moment to let others run. Stops early at output
   * that a restarted worker has not got back from its guest yet; reading again goes on there.
   */
  read(end: number): Generator<SessionEvent | undefined, void>;
  close(): void;
}

/** How many records may pass without a word before others get to run. */
const silentRecords = 16;

interface Gap {
  readonly execution: ReadableExecution;
  readonly extent: OutputExtent;
  readonly from: number;
  readonly to: number;
  /** The place after it. */
  readonly after: LogCursor;
}

export function createLogReader(source: LogSource, query: LogQuery): LogReader {
  const fd = openSync(source.path, 'r');
  let { position, offset } = query.cursor;
  let gap: Gap | undefined;
  /** Whose spool is being read. */
  let reading: ReadableExecution | undefined;
  let closed = false;

  /** Gaps are told late, so that those that follow each other are one. */
  function* tellGap(): Generator<SessionEvent, void> {
    if (gap === undefined) return;
    const { execution, extent, from, to, after } = gap;
    gap = undefined;
    yield toSessionEvent(gapOf(execution, extent.timeMs, extent.stream, { from, to }), after);
  }

  /** Whether a gap at the offset is one with the gap before it. */
  function goesOn({ number, stream, from }: OutputExtent): boolean {
    if (query.separateGaps && offset === from) return false;
    return gap?.extent.number === number && gap.extent.stream === stream && gap.to === offset;
  }

  /** What stands at the offset: bytes, a gap up to somewhere, or nothing yet. */
  function look(execution: ReadableExecution, { stream, to }: OutputExtent): Buffer | number | undefined {
    const omitted = query.omitted?.(execution, stream);
    if (omitted !== undefined && offset >= omitted.from && offset < omitted.to) return Math.min(omitted.to, to);
    const limit = (omitted !== undefined && offset < omitted.from ? Math.min(omitted.from, to) : to) - offset;
    const read = execution.spool(stream).read(offset, limit);
    if (read.type === 'data') return read.data;
    if (read.type === 'gap') return Math.min(read.to, to);
    return execution.drained ? to : undefined;
  }

  function rest(): void {
    reading?.rest();
    reading = undefined;
  }

  /** False: the bytes are not back yet. */
  function* tellOutput(entry: JournalEntry, extent: OutputExtent): Generator<SessionEvent, boolean> {
    const execution = source.execution(extent.number);
    reading = execution;
    offset = Math.max(offset, extent.from);
    while (execution !== undefined && offset < extent.to) {
      const found = look(execution, extent);
      if (found === undefined) return false;
      const from = offset;
      const to = typeof found === 'number' ? found : from + found.length;
      // The end of a record is the beginning of the next, in every reader alike.
      const after = to === extent.to ? { position: entry.next, offset: 0 } : { position, offset: to };
      const joined = typeof found === 'number' && goesOn(extent) ? gap : undefined;
      if (joined === undefined) yield* tellGap();
      offset = to;
      if (typeof found === 'number') gap = { execution, extent, from: joined?.from ?? from, to, after };
      else yield toSessionEvent(outputOf(execution, extent.timeMs, extent.stream, from, found), after);
    }
    rest();
    position = entry.next;
    offset = 0;
    return true;
  }

  function* read(end: number): Generator<SessionEvent | undefined, void> {
    let silent = 0;
    for (const entry of readJournal(fd, position, end)) {
      const extent = decodeOutput(entry.bytes);
      if (extent !== undefined && !query.withoutOutput && wanted(extent.number)) {
        if (!(yield* tellOutput(entry, extent))) break;
        continue;
      }
      if (++silent % silentRecords === 0) yield undefined;
      const event = extent === undefined ? eventAt(entry) : undefined;
      if (event !== undefined) yield* tellGap();
      position = entry.next;
      offset = 0;
      if (event !== undefined) yield toSessionEvent(event, { position, offset });
    }
    yield* tellGap();
  }

  function eventAt(entry: JournalEntry): LogEvent | undefined {
    const record = fromBinary(JournalRecordSchema, entry.bytes);
    return wanted(record.number) ? eventOf(record, source.execution(record.number)) : undefined;
  }

  function wanted(number: bigint): boolean {
    return query.number === undefined || query.number === number;
  }

  return {
    get cursor() {
      return { position, offset };
    },
    read,
    close() {
      if (!closed) closeSync(fd);
      closed = true;
      // Whoever reads may have left in the middle of output.
      rest();
    },
  };
}
