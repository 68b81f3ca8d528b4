import { type DescField, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type ExecutionResult, ExecutionResultSchema } from '../../../gen/assay/v1/execution_pb.js';
import { grpcFrame } from '../../shared/grpc-frame.ts';

/**
 * What every command costs, written field by field around what is encoded already: its records in the journal (each a
 * JournalRecord with its length before it) and its first and last event. The general encoder makes objects and a buffer
 * for each, and would encode the request and the result twice.
 */
const writer = new BinaryWriter();

const { field } = JournalRecordSchema;
const messageTag = ({ number }: DescField): number => (number << 3) | WireType.LengthDelimited;
const tag = {
  number: (field.number.number << 3) | WireType.Varint,
  accepted: messageTag(field.accepted),
  finished: messageTag(field.finished),
  drained: messageTag(field.drained),
  sent: messageTag(field.sent),
} as const;

export interface AcceptedRecord {
  readonly number: bigint;
  /** An ExecuteRequest. */
  readonly request: Uint8Array;
  readonly ms: number;
  readonly traceparent: string;
  readonly nest: number;
  readonly guestNumber: bigint;
}

export interface SentRecord {
  readonly number: bigint;
  readonly guestNumber: bigint;
  readonly ms: number;
  readonly shellOpened: number;
  readonly cpuMicros: number;
  readonly oomKills: number;
}

export function encodeAccepted({ number, request, ms, traceparent, nest, guestNumber }: AcceptedRecord): Uint8Array {
  return record(number, tag.accepted, () => {
    writer.uint32(0x0a).bytes(request);
    timestamp(0x12, ms);
    if (traceparent !== '') writer.uint32(0x1a).string(traceparent);
    if (nest !== 0) writer.uint32(0x20).uint32(nest);
    if (guestNumber !== 0n) writer.uint32(0x28).uint64(guestNumber);
  });
}

export function encodeSent({ number, guestNumber, ms, shellOpened, cpuMicros, oomKills }: SentRecord): Uint8Array {
  return record(number, tag.sent, () => {
    writer.uint32(0x08).uint64(guestNumber);
    timestamp(0x12, ms);
    writer.uint32(0x18).uint32(shellOpened).uint32(0x20).uint64(cpuMicros).uint32(0x28).uint32(oomKills);
  });
}

export function encodeFinished(number: bigint, result: ExecutionResult, startedMs: number | undefined): Uint8Array {
  return record(number, tag.finished, () => {
    writer.uint32(0x0a).bytes(encodeResult(result));
    if (startedMs !== undefined) timestamp(0x12, startedMs);
  });
}

export function encodeDrained(number: bigint, stdoutBytes: number, stderrBytes: number): Uint8Array {
  return record(number, tag.drained, () => {
    writer.uint32(0x08).uint64(stdoutBytes).uint32(0x10).uint64(stderrBytes);
  });
}

/** Started { execution_id = 1; start_time = 2 } in ExecutionEvent { started = 1 } in ExecuteResponse { event = 1 }. */
export function startedFrame(executionId: string, startedMs: number): Buffer {
  return event(0x0a, () => {
    writer.uint32(0x0a).string(executionId);
    timestamp(0x12, startedMs);
  });
}

/** Finished { result = 1 } in ExecutionEvent { finished = 7 }. */
export function finishedFrame(result: ExecutionResult): Buffer {
  return event(0x3a, () => void writer.uint32(0x0a).bytes(encodeResult(result)));
}

const encodedResults = new WeakMap<ExecutionResult, Uint8Array>();

/** Once for the journal and for each reader: a result never changes. */
function encodeResult(result: ExecutionResult): Uint8Array {
  let encoded = encodedResults.get(result);
  if (encoded === undefined) {
    encoded = toBinary(ExecutionResultSchema, result);
    encodedResults.set(result, encoded);
  }
  return encoded;
}

function record(number: bigint, kind: number, write: () => void): Uint8Array {
  return written(() => {
    writer.fork().uint32(tag.number).uint64(number).uint32(kind).fork();
    write();
    writer.join().join();
  });
}

function event(kind: number, write: () => void): Buffer {
  return grpcFrame(
    written(() => {
      writer.uint32(0x0a).fork().uint32(kind).fork();
      write();
      writer.join().join();
    }),
  );
}

function written(write: () => void): Uint8Array {
  try {
    write();
  } catch (error) {
    // Nothing of it may stand before the next.
    writer.finish();
    throw error;
  }
  return writer.finish();
}

function timestamp(field: number, ms: number): void {
  const seconds = Math.floor(ms / 1_000);
  writer.uint32(field).fork().uint32(0x08).int64(seconds);
  writer.uint32(0x10).int32((ms - seconds * 1_000) * 1_000_000);
  writer.join();
}
