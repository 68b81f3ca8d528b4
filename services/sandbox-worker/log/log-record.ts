import { WireType } from '@bufbuild/protobuf/wire';
import { JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { Stream } from '../guest/frame.ts';

/** Output at its place in the order of events; the bytes are in the spool. */
export interface OutputExtent {
  readonly number: bigint;
  readonly stream: Stream;
  readonly from: number;
  readonly to: number;
  readonly timeMs: number;
}

const { field } = JournalRecordSchema;
/** Each of them is one byte. */
const numberTag = (field.number.number << 3) | WireType.Varint;
const startedTag = (field.started.number << 3) | WireType.LengthDelimited;
const outputTag = (field.output.number << 3) | WireType.LengthDelimited;
const fieldTags = { first: 0x08, second: 0x10, third: 0x18, fourth: 0x20 } as const;
const longestVarint = 10;

/**
 * The two records that every command costs, encoded by hand as protobuf would (JournalStarted and JournalOutput in a
 * JournalRecord, with its length before it): a tenth of the work.
 */
export function encodeStarted(number: bigint, timeMs: number): Buffer {
  const body = Buffer.allocUnsafe(1 + longestVarint);
  const bytes = writeField(body, 0, fieldTags.first, timeMs);
  return record(number, startedTag, body, bytes);
}

export function encodeOutput({ number, stream, from, to, timeMs }: OutputExtent): Buffer {
  const body = Buffer.allocUnsafe(4 * (1 + longestVarint));
  let at = writeField(body, 0, fieldTags.first, stream);
  at = writeField(body, at, fieldTags.second, from);
  at = writeField(body, at, fieldTags.third, to);
  at = writeField(body, at, fieldTags.fourth, timeMs);
  return record(number, outputTag, body, at);
}

/** The extent in a record of the journal (without its length), or undefined for a record of another kind. */
export function decodeOutput(bytes: Uint8Array): OutputExtent | undefined {
  const reader = createReader(bytes);
  const number = reader.field(numberTag);
  if (number === undefined || !reader.skip(outputTag)) return undefined;
  reader.varint();
  const stream = reader.field(fieldTags.first);
  const from = reader.field(fieldTags.second);
  const to = reader.field(fieldTags.third);
  const timeMs = reader.field(fieldTags.fourth);
  if (from === undefined || to === undefined || timeMs === undefined) return undefined;
  return { number: BigInt(number), stream: stream === 1 ? 1 : 2, from, to, timeMs };
}

function record(number: bigint, tag: number, body: Buffer, bodyBytes: number): Buffer {
  const whole = Buffer.allocUnsafe(4 + longestVarint + bodyBytes);
  let at = writeField(whole, 1, numberTag, Number(number));
  whole[at++] = tag;
  whole[at++] = bodyBytes;
  at += body.copy(whole, at, 0, bodyBytes);
  // Lengths stay below 128, so each is one byte.
  whole[0] = at - 1;
  return whole.subarray(0, at);
}

function writeField(buffer: Buffer, at: number, tag: number, value: number): number {
  let position = at;
  buffer[position++] = tag;
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) buffer[position++] = (rest % 128) | 0x80;
  buffer[position++] = rest;
  return position;
}

function createReader(bytes: Uint8Array) {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; at < bytes.length; scale *= 128) {
      const byte = bytes[at++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 128) break;
    }
    return value;
  };
  const skip = (tag: number): boolean => {
    if (bytes[at] !== tag) return false;
    at++;
    return true;
  };
  return { varint, skip, field: (tag: number) => (skip(tag) ? varint() : undefined) };
}
