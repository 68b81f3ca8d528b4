import { fromBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { ExecuteResponseSchema, type ExecutionEvent as WireEvent } from '../../gen/assay/v1/execution_pb.js';
import type { StreamName } from './execution-event.ts';

export interface ReceivedOutput {
  readonly case: StreamName;
  readonly value: { readonly offset: number | bigint; readonly data: Uint8Array };
}

/** An event as it came: what the generated code would give, but that an offset may be a number. */
export type ReceivedEvent = ReceivedOutput | WireEvent['event'];

// Field number and wire type, as the schema has them.
const eventTag = 0x0a;
const stdoutTag = 0x12;
const stderrTag = 0x1a;
const offsetTag = 0x08;
const dataTag = 0x12;

/** The event in an ExecuteResponse or AttachResponse, which are the same on the wire. */
export function decodeEvent(message: Buffer, owned: boolean): ReceivedEvent {
  const output = decodeOutput(message, owned);
  if (output !== undefined) return output;
  try {
    return fromBinary(ExecuteResponseSchema, new Uint8Array(message)).event?.event ?? { case: undefined };
  } catch (error) {
    throw new ConnectError(`parse binary: ${error}`, Code.Internal, undefined, undefined, error);
  }
}

/** A piece of at least this is given to the reader as it lies in what was read from the socket: 64 KiB at most. */
const viewBytes = 8 * 1024;

/**
 * Takes the output of a message that is still coming in, in parts: collecting it first costs a copy and, what is more, as
 * many collections of garbage again. Undefined: it is no output, or not seen to be one yet.
 */
export function decodeOutputInParts(
  size: number,
  beginning: Buffer,
  take: (output: ReceivedOutput) => void,
): ((part: Buffer) => void) | undefined {
  const head = decodeOutputHead(beginning, size);
  if (head === undefined || head.start > beginning.length) return undefined;
  let { offset } = head;
  const takePart = (part: Buffer): void => {
    take({ case: head.stream, value: { offset, data: keep(part, part.length >= viewBytes) } });
    offset += part.length;
  };
  if (head.start < beginning.length) takePart(beginning.subarray(head.start));
  return takePart;
}

/**
 * Nearly all bytes come as output, and the general decoder is most of what reading it costs. Whatever is not written
 * in the plainest way is undefined here and left to that decoder.
 */
function decodeOutput(message: Buffer, owned: boolean): ReceivedOutput | undefined {
  const head = decodeOutputHead(message, message.length);
  if (head === undefined) return undefined;
  const data = keep(message.subarray(head.start), owned);
  return { case: head.stream, value: { offset: head.offset, data } };
}

/** A view of a shared piece would keep all of it in memory for as long as the reader keeps a single byte. */
function keep(bytes: Buffer, owned: boolean): Uint8Array {
  const view = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  return owned ? view : view.slice();
}

/** What comes before the bytes of an output that reaches to the end of a message of this size. */
function decodeOutputHead(
  message: Buffer,
  size: number,
): { stream: StreamName; offset: number; start: number } | undefined {
  const event = startOfLast(message, 0, eventTag, size);
  if (event < 0) return undefined;
  const stream = message[event] === stdoutTag ? 'stdout' : 'stderr';
  let at = startOfLast(message, event, stream === 'stdout' ? stdoutTag : stderrTag, size);
  if (at < 0) return undefined;
  let offset = 0;
  if (message[at] === offsetTag) {
    offset = varintAt(message, at + 1);
    if (Number.isNaN(offset)) return undefined;
    at = afterVarint(message, at + 1);
  }
  const start = startOfLast(message, at, dataTag, size);
  return start < 0 ? undefined : { stream, offset, start };
}

/** Where the content of a field begins that has this tag and reaches to the end of the message; else -1. */
function startOfLast(message: Buffer, at: number, tag: number, size: number): number {
  if (message[at] !== tag) return -1;
  const start = afterVarint(message, at + 1);
  return start + varintAt(message, at + 1) === size ? start : -1;
}

/** NaN for one that is longer than its ten bytes. */
function varintAt(message: Buffer, at: number): number {
  let value = 0;
  let scale = 1;
  for (let next = at; next < at + 10; next++) {
    const byte = message[next] ?? 0;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
    scale *= 128;
  }
  return Number.NaN;
}

function afterVarint(message: Buffer, at: number): number {
  let next = at;
  while ((message[next++] ?? 0) >= 0x80);
  return next;
}
