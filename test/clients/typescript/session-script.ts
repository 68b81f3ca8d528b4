import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { EndReason, OutputStream, TranscriptEventSchema } from '../../../gen/assay/v1/execution_pb.js';
import { type SessionEvent, SessionEventSchema, type SessionState } from '../../../gen/assay/v1/session_pb.js';

type Fields = NonNullable<MessageInitShape<typeof TranscriptEventSchema>['event']>;

/** One event of an execution, and its place. */
export function executed(cursor: string, executionId: string, event: Fields): SessionEvent {
  const value = create(TranscriptEventSchema, { executionId, event });
  return create(SessionEventSchema, { time: { seconds: 1n }, cursor, event: { case: 'execution', value } });
}

export const began = (cursor: string, id: string, summary = '') =>
  executed(cursor, id, { case: 'started', value: { summary } });

export const wrote = (
  cursor: string,
  id: string,
  offset: number,
  text: string,
  stream: 'stdout' | 'stderr' = 'stdout',
) => executed(cursor, id, { case: stream, value: { offset: BigInt(offset), data: Buffer.from(text) } });

export const lost = (cursor: string, id: string, from: number, to: number) =>
  executed(cursor, id, {
    case: 'gap',
    value: { stream: OutputStream.STDOUT, startOffset: BigInt(from), endOffset: BigInt(to) },
  });

export const ended = (cursor: string, id: string, exitCode = 0) =>
  executed(cursor, id, { case: 'finished', value: { result: { reason: EndReason.EXITED, exitCode } } });

export const became = (cursor: string, state: SessionState, message = '') =>
  create(SessionEventSchema, { time: { seconds: 1n }, cursor, event: { case: 'state', value: { state, message } } });

export const quiet = () => create(SessionEventSchema, { event: { case: 'heartbeat', value: {} } });
