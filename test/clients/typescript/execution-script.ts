import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  AwaitingInputKind,
  EndReason,
  type ExecutionEvent,
  ExecutionEventSchema,
  OutputStream,
} from '../../../gen/assay/v1/execution_pb.js';

type Fields = NonNullable<MessageInitShape<typeof ExecutionEventSchema>['event']>;

function event(fields: Fields): { event: ExecutionEvent } {
  return { event: create(ExecutionEventSchema, { event: fields }) };
}

export const started = () => event({ case: 'started', value: { executionId: 'exe_1' } });
export function awaitingInput(inputBytes: number) {
  const value = { kind: AwaitingInputKind.READING, inputBytes: BigInt(inputBytes) };
  return event({ case: 'awaitingInput', value });
}

export const heartbeat = () => event({ case: 'heartbeat', value: {} });

export function output(stream: 'stdout' | 'stderr', offset: number, data: Uint8Array | string) {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  return event({ case: stream, value: { offset: BigInt(offset), data: bytes } });
}

export function gap(stream: 'stdout' | 'stderr', from: number, to: number) {
  const name = stream === 'stdout' ? OutputStream.STDOUT : OutputStream.STDERR;
  return event({ case: 'gap', value: { stream: name, startOffset: BigInt(from), endOffset: BigInt(to) } });
}

export function finished(stdoutBytes: number, stderrBytes = 0, exitCode = 0) {
  const sizes = { stdoutBytes: BigInt(stdoutBytes), stderrBytes: BigInt(stderrBytes) };
  return event({ case: 'finished', value: { result: { reason: EndReason.EXITED, exitCode, ...sizes } } });
}
