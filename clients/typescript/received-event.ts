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

/**
 * Nearly all bytes come as output, and the general decoder is most of what reading it costs. Whatever is not written
 * in the plainest way is undefined here and left to that decoder.
 */
function decodeOutput(message: Buffer, owned: boolean): ReceivedOutput | undefined {
  const event = startOfLast(message, 0, eventTag);
  if (event < 0) return undefined;
  const stream = message[event] === stdoutTag ? 'stdout' : 'stderr';
  let at = startOfLast(message, event, stream === 'stdout' ? stdoutTag : stderrTag);
  if (at < 0) return undefined;
  let offset = 0;
  if (message[at] === offsetTag) {
    offset = varintAt(message, at + 1);
    if (Number.isNaN(offset)) return undefined;
    at = afterVarint(message, at + 1);
  }
  const start = startOfLast(message, at, dataTag);
  if (start < 0) return undefined;
  const data = new Uint8Array(message.buffer, message.byteOffset + start, message.length - start);
  // A view of a shared piece would keep all of it in memory for as long as the reader keeps a single byte.
  return { case: stream, value: { offset, data: owned ? data : data.slice() } };
}

/** Where the content of a field begins that has this tag and reaches to the end of the message; else -1. */
function startOfLast(message: Buffer, at: number, tag: number): number {
  if (message[at] !== tag) return -1;
  const start = afterVarint(message, at + 1);
  return start + varintAt(message, at + 1) === message.length ? start : -1;
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
