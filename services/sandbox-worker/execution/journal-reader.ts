import { readSync } from 'node:fs';

/** One record as it lies in the file, without its length. */
export interface JournalEntry {
  readonly position: number;
  /** Where the next record begins. */
  readonly next: number;
  readonly bytes: Buffer;
}

/** Enough for most records. */
const recordBytes = 512;
const chunkBytes = 65_536;
const lengthBytes = 5;

/** The whole records between two positions, read a piece of the file at a time. Stops at one that was cut short. */
export function* readJournal(fd: number, from: number, end: number): Generator<JournalEntry, void> {
  let position = from;
  let chunk: Buffer = Buffer.alloc(0);
  let chunkAt = from;

  /** The bytes at the current position, at least `wanted` of them unless the range ends before. */
  function bytesHere(wanted: number): Buffer {
    const held = chunk.subarray(position - chunkAt);
    const there = Math.min(wanted, end - position);
    if (held.length >= there) return held;
    chunk = readExactly(fd, position, Math.min(Math.max(wanted, chunkBytes), end - position));
    chunkAt = position;
    return chunk;
  }

  while (position < end) {
    const length = lengthOf(bytesHere(lengthBytes));
    if (length === undefined) return;
    const bytes = bytesHere(length.head + length.body);
    if (bytes.length < length.head + length.body) return;
    const entry = {
      position,
      next: position + length.head + length.body,
      bytes: bytes.subarray(length.head, length.head + length.body),
    };
    position = entry.next;
    yield entry;
  }
}

/** The record that begins at this position, without its length. */
export function recordAt(fd: number, position: number): Buffer {
  let bytes = readExactly(fd, position, recordBytes);
  const length = lengthOf(bytes);
  const end = length === undefined ? 0 : length.head + length.body;
  if (end > bytes.length) bytes = readExactly(fd, position, end);
  if (length === undefined || bytes.length < end) throw new Error(`the journal has no whole record at ${position}`);
  return bytes.subarray(length.head, end);
}

function lengthOf(bytes: Buffer): { head: number; body: number } | undefined {
  let body = 0;
  for (let head = 0; head < Math.min(lengthBytes, bytes.length); head++) {
    const byte = bytes[head] as number;
    body += (byte & 0x7f) * 128 ** head;
    if (byte < 128) return { head: head + 1, body };
  }
  return undefined;
}

function readExactly(fd: number, position: number, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafe(bytes);
  let done = 0;
  while (done < bytes) {
    const read = readSync(fd, buffer, done, bytes - done, position + done);
    if (read === 0) break;
    done += read;
  }
  return buffer.subarray(0, done);
}
