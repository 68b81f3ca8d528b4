import { create } from '@bufbuild/protobuf';
import { type SessionEvent, SessionEventSchema } from '../../../gen/assay/v1/session_pb.js';

/** A place in a session's log, as workers write it: all before `position` is told, and the output there below `offset`. */
export interface LogPlace {
  readonly position: number;
  readonly offset: number;
}

export function parsePlace(text: string): LogPlace {
  const [position = '', offset = ''] = text.split('.', 2);
  return { position: Number(position), offset: Number(offset) };
}

export function isAfter(one: LogPlace, other: LogPlace): boolean {
  return one.position > other.position || (one.position === other.position && one.offset > other.offset);
}

/** What is left of an event when its stream was told up to the offset already. Undefined: nothing. */
export function withoutTold(event: SessionEvent, offset: number): SessionEvent | undefined {
  if (event.event.case !== 'execution') return event;
  const execution = event.event.value;
  const { event: what } = execution;
  if (what.case === 'stdout' || what.case === 'stderr') {
    const told = offset - Number(what.value.offset);
    if (told <= 0) return event;
    if (told >= what.value.data.length) return undefined;
    const value = { ...what.value, offset: BigInt(offset), data: what.value.data.subarray(told) };
    return withExecution(event, { ...execution, event: { case: what.case, value } });
  }
  if (what.case === 'gap') {
    if (offset <= Number(what.value.startOffset)) return event;
    if (offset >= Number(what.value.endOffset)) return undefined;
    const value = { ...what.value, startOffset: BigInt(offset) };
    return withExecution(event, { ...execution, event: { case: 'gap', value } });
  }
  return event;
}

/** Two gaps of one stream that follow each other, as one. Undefined: they do not. */
export function joinedGap(first: SessionEvent, second: SessionEvent): SessionEvent | undefined {
  const one = gapIn(first);
  const other = gapIn(second);
  if (one === undefined || other === undefined || second.event.case !== 'execution') return undefined;
  const same = one.executionId === other.executionId && one.gap.stream === other.gap.stream;
  if (!same || one.gap.endOffset !== other.gap.startOffset) return undefined;
  const value = { ...other.gap, startOffset: one.gap.startOffset };
  return withExecution(second, { ...second.event.value, event: { case: 'gap', value } });
}

export function gapIn({ event }: SessionEvent) {
  if (event.case !== 'execution' || event.value.event.case !== 'gap') return undefined;
  return { executionId: event.value.executionId, gap: event.value.event.value };
}

type ExecutionTold = Extract<SessionEvent['event'], { case: 'execution' }>['value'];

function withExecution(event: SessionEvent, value: ExecutionTold): SessionEvent {
  return { ...create(SessionEventSchema, event), event: { case: 'execution', value } };
}
