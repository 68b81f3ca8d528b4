import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { sizeDelimitedEncode } from '@bufbuild/protobuf/wire';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { Stream } from '../guest/frame.ts';
import { decodeOutput, encodeStarted } from '../log/log-record.ts';
import { createOutputExtents } from '../log/output-extents.ts';
import { type JournalEntry, readJournal } from './journal-reader.ts';

/**
 * What happened in a session, appended as it happens: the memory of its executions and, in the order of its records, its
 * log. A record that was written survives the worker; it is not flushed to the disk, because a machine that dies takes
 * its sandboxes with it.
 */
export interface Journal {
  /** How much is written. What lies below never changes. */
  readonly size: number;
  /**
   * Writes now, after what is to be written soon; throws where it cannot, and then never does. Bytes are a record with its length before it.
   * Returns the record's position, as `note` and `appendSoon` do.
   */
  append(record: JournalRecord | Uint8Array): number;
  /** Writes now what has happened already, and cannot be refused; where that fails, later. */
  note(record: JournalRecord | Uint8Array): number;
  /** Writes within some milliseconds, or with the next record that must be written now. */
  appendSoon(record: JournalRecord | Uint8Array): number;
  /** The program runs. Written soon. */
  started(number: bigint, timeMs: number): void;
  /** Output was stored. Written soon, together with what comes right after it in the same stream. */
  output(number: bigint, stream: Stream, from: number, to: number): void;
  /** Writes what is to be written soon. */
  flush(): void;
  /** Calls back when everything appended so far is written. */
  whenWritten(callback: () => void): void;
  /** Calls back after every write. Returns what ends that. */
  onWrite(listener: () => void): () => void;
  close(): void;
}

/** Whom a journal turns to when it cannot be written. */
export interface JournalDisk {
  /** There is no space left. Returns whether some was made. */
  full(): boolean;
  /** It could not be written. */
  failed(error: unknown): void;
}

const unattended: JournalDisk = { full: () => false, failed() {} };

/** How long a record may wait for company. */
const soonMs = 20;
/** The more a journal holds, the longer output waits for company: no program can make it grow without bound. */
const outputStepBytes = 4 * 1_048_576;
const outputLongestMs = 1_000;
/** How soon to try again what could not be written. */
const againMs = 1_000;

/** A record and its place in the journal. */
export interface StoredRecord {
  readonly position: number;
  readonly entry: JournalRecord;
}

/** Opens a journal; `records` reads what it holds, until the journal is closed. A record cut short by a crash is dropped: nobody was told of it. */
export function openJournal(
  path: string,
  disk: JournalDisk = unattended,
): { journal: Journal; records: Iterable<StoredRecord> } {
  // O_RDWR | O_CREAT: positions are explicit, so a torn record is overwritten.
  const fd = openSync(path, 0o102, 0o600);
  const bytes = wholeBytes(fd);
  const records = { [Symbol.iterator]: () => readRecords(fd, bytes) };
  ftruncateSync(fd, bytes);
  const extents = createOutputExtents();
  const listeners = new Set<() => void>();
  let size = bytes;
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let callbacks: Array<() => void> = [];
  let closed = false;
  let scheduled: NodeJS.Timeout | undefined;
  let dueMs = Number.POSITIVE_INFINITY;

  /** Puts a record in its place: output that was stored before it comes before it. */
  function stage(record: Uint8Array): number {
    // The descriptor may be somebody else's by now.
    if (closed) throw new Error(`the journal ${path} is closed`);
    stageOutput();
    const position = size + waitingBytes;
    push(record);
    return position;
  }

  function stageOutput(): void {
    for (const output of extents.take()) push(output);
  }

  function push(record: Uint8Array): void {
    waiting.push(record);
    waitingBytes += record.length;
  }

  function schedule(delayMs: number): void {
    const due = performance.now() + delayMs;
    if (due >= dueMs) return;
    clearTimeout(scheduled);
    dueMs = due;
    scheduled = setTimeout(tryToWrite, delayMs).unref();
  }

  function tryToWrite(): void {
    try {
      write();
    } catch (error) {
      disk.failed(error);
    }
  }

  /** Nothing that waits is given up before all of it is written. */
  function put(): void {
    const encoded = waiting.length === 1 ? (waiting[0] as Uint8Array) : Buffer.concat(waiting);
    let done = 0;
    while (done < encoded.length) done += writeSync(fd, encoded, done, encoded.length - done, size + done);
    size += encoded.length;
    waiting = [];
    waitingBytes = 0;
  }

  function write(): void {
    clearTimeout(scheduled);
    dueMs = Number.POSITIVE_INFINITY;
    stageOutput();
    try {
      put();
    } catch (error) {
      schedule(againMs);
      // What is given up to make room may be recorded here, and then all is written.
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' || !disk.full()) throw error;
      put();
    }
    const called = callbacks;
    callbacks = [];
    for (const callback of called) callback();
    for (const listener of [...listeners]) listener();
  }

  const journal: Journal = {
    get size() {
      return size;
    },
    append(record) {
      const staged = encode(record);
      const position = stage(staged);
      try {
        write();
      } catch (error) {
        // Its caller takes it for not written, and so must whoever reads this.
        if (waiting.at(-1) === staged) {
          waiting.pop();
          waitingBytes -= staged.length;
        }
        disk.failed(error);
        throw error;
      }
      return position;
    },
    note(record) {
      const position = stage(encode(record));
      tryToWrite();
      return position;
    },
    appendSoon(record) {
      const position = stage(encode(record));
      schedule(soonMs);
      return position;
    },
    started(number, timeMs) {
      stage(encodeStarted(number, timeMs));
      schedule(soonMs);
    },
    output(number, stream, from, to) {
      if (closed) throw new Error(`the journal ${path} is closed`);
      extents.add(number, stream, from, to);
      schedule(Math.min(outputLongestMs, soonMs * 2 ** Math.floor(size / outputStepBytes)));
    },
    flush() {
      if (!closed) write();
    },
    whenWritten(callback) {
      if (waiting.length === 0) callback();
      else callbacks.push(callback);
    },
    onWrite(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      if (closed) return;
      try {
        write();
      } finally {
        closed = true;
        clearTimeout(scheduled);
        closeSync(fd);
      }
    },
  };
  return { records, journal };
}

function encode(record: JournalRecord | Uint8Array): Uint8Array {
  return record instanceof Uint8Array ? record : sizeDelimitedEncode(JournalRecordSchema, record);
}

/** Where the last whole record ends. Only the last one can have been cut short, and then its bytes may be anything. */
function wholeBytes(fd: number): number {
  let last: JournalEntry | undefined;
  for (const entry of readJournal(fd, 0, fstatSync(fd).size)) last = entry;
  if (last === undefined) return 0;
  return decodeRecord(last.bytes) === undefined ? last.position : last.next;
}

/**
 * Every record in order, but of an output stream's only the last, at the end: the others matter to readers of the log
 * alone, and those of an execution whose streams are complete to nobody.
 */
function* readRecords(fd: number, bytes: number): Generator<StoredRecord, void> {
  const outputs = new Map<string, { position: number; bytes: Uint8Array }>();
  for (const { position, bytes: record } of readJournal(fd, 0, bytes)) {
    const extent = decodeOutput(record);
    if (extent !== undefined) {
      outputs.set(`${extent.number}.${extent.stream}`, { position, bytes: Buffer.from(record) });
      continue;
    }
    const entry = decodeRecord(record);
    if (entry === undefined) return;
    if (entry.record.case === 'drained') for (const stream of [1, 2]) outputs.delete(`${entry.number}.${stream}`);
    yield { position, entry };
  }
  for (const output of outputs.values()) {
    yield { position: output.position, entry: fromBinary(JournalRecordSchema, output.bytes) };
  }
}

function decodeRecord(bytes: Uint8Array): JournalRecord | undefined {
  try {
    return fromBinary(JournalRecordSchema, bytes);
  } catch {
    return undefined;
  }
}
