import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { JournalRecord } from '../../../gen/assay/internal/v1/journal_pb.js';
import { OutputStream } from '../../../gen/assay/v1/execution_pb.js';
import { type SessionEvent, SessionEventSchema } from '../../../gen/assay/v1/session_pb.js';
import type { Stream } from '../guest/frame.ts';
import { formatCursor, type LogCursor } from './log-cursor.ts';

/** What the log tells of an execution beside the records themselves. */
export interface LoggedExecution {
  readonly id: string;
  readonly spec: { readonly summary: string; readonly shellId: string };
}

type Told = MessageInitShape<typeof SessionEventSchema>['event'];

/** An event of the log before its place is known. */
export interface LogEvent {
  readonly timeMs: number;
  readonly event: NonNullable<Told>;
}

export function toSessionEvent({ timeMs, event }: LogEvent, cursor: LogCursor): SessionEvent {
  return create(SessionEventSchema, { time: timestampFromMs(timeMs), cursor: formatCursor(cursor), event });
}

/** What a record says to readers of the log, or undefined where it says nothing to them. */
export function eventOf({ record }: JournalRecord, execution: LoggedExecution | undefined): LogEvent | undefined {
  if (record.case === 'event') {
    const { time, event } = record.value;
    return event.case === undefined ? undefined : { timeMs: time === undefined ? 0 : timestampMs(time), event };
  }
  if (execution === undefined) return undefined;
  const { summary, shellId } = execution.spec;
  switch (record.case) {
    case 'started':
      return ofExecution(execution, Number(record.value.timeMs), { case: 'started', value: { summary, shellId } });
    case 'refused': {
      const { reason, message, timeMs } = record.value;
      return ofExecution(execution, Number(timeMs), { case: 'refused', value: { summary, reason, message } });
    }
    case 'finished': {
      const { result } = record.value;
      if (result === undefined) return undefined;
      const timeMs = result.endTime === undefined ? 0 : timestampMs(result.endTime);
      return ofExecution(execution, timeMs, { case: 'finished', value: { result } });
    }
    default:
      return undefined;
  }
}

export function outputOf(
  execution: LoggedExecution,
  timeMs: number,
  stream: Stream,
  offset: number,
  data: Uint8Array,
): LogEvent {
  const value = { offset: BigInt(offset), data };
  return ofExecution(execution, timeMs, { case: stream === 1 ? 'stdout' : 'stderr', value });
}

export function gapOf(
  execution: LoggedExecution,
  timeMs: number,
  stream: Stream,
  gap: { from: number; to: number },
): LogEvent {
  const name = stream === 1 ? OutputStream.STDOUT : OutputStream.STDERR;
  return ofExecution(execution, timeMs, {
    case: 'gap',
    value: { stream: name, startOffset: BigInt(gap.from), endOffset: BigInt(gap.to) },
  });
}

type ExecutionTold = Extract<Told, { case?: 'execution' }>['value'];

function ofExecution({ id }: LoggedExecution, timeMs: number, event: NonNullable<ExecutionTold>['event']): LogEvent {
  return { timeMs, event: { case: 'execution', value: { executionId: id, ...(event && { event }) } } };
}
