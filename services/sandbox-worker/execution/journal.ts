import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryReader, sizeDelimitedEncode } from '@bufbuild/protobuf/wire';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/worker/v1/worker_pb.js';

/**
 * What happened to a session's executions, appended as it happens. A record that was written survives the worker; it is
 * not flushed to the disk, because a machine that dies takes its sandboxes with it.
 */
export interface Journal {
  /** Writes now, after what is to be written soon. */
  append(record: JournalRecord): void;
  /** Writes within some milliseconds, or with the next record that must be written now. */
  appendSoon(record: JournalRecord): void;
  /** Calls back when everything appended so far is written. */
  whenWritten(callback: () => void): void;
  close(): void;
}

/** How long a record may wait for company. */
const soonMs = 20;

/** Opens a journal and returns what it holds. A record cut short by a crash is dropped: nobody was told of it. */
export function openJournal(path: string): { journal: Journal; records: JournalRecord[] } {
  const { records, bytes } = existsSync(path) ? readRecords(readFileSync(path)) : { records: [], bytes: 0 };
  // O_WRONLY | O_CREAT: positions are explicit, so a torn record is overwritten.
  const fd = openSync(path, 0o101, 0o600);
  ftruncateSync(fd, bytes);
  let end = bytes;
  let waiting: Uint8Array[] = [];
  let callbacks: Array<() => void> = [];
  let closed = false;
  let scheduled: NodeJS.Timeout | undefined;

  function write(): void {
    clearTimeout(scheduled);
    scheduled = undefined;
    const encoded = waiting.length === 1 ? (waiting[0] as Uint8Array) : Buffer.concat(waiting);
    waiting = [];
    let done = 0;
    while (done < encoded.length) done += writeSync(fd, encoded, done, encoded.length - done, end + done);
    end += encoded.length;
    const called = callbacks;
    callbacks = [];
    for (const callback of called) callback();
  }

  const journal: Journal = {
    append(record) {
      // The descriptor may be somebody else's by now.
      if (closed) throw new Error(`the journal ${path} is closed`);
      waiting.push(sizeDelimitedEncode(JournalRecordSchema, record));
      write();
    },
    appendSoon(record) {
      if (closed) throw new Error(`the journal ${path} is closed`);
      waiting.push(sizeDelimitedEncode(JournalRecordSchema, record));
      scheduled ??= setTimeout(write, soonMs).unref();
    },
    whenWritten(callback) {
      if (waiting.length === 0) callback();
      else callbacks.push(callback);
    },
    close() {
      if (closed) return;
      if (waiting.length > 0) write();
      closed = true;
      closeSync(fd);
    },
  };
  return { records, journal };
}

function readRecords(data: Uint8Array): { records: JournalRecord[]; bytes: number } {
  const records: JournalRecord[] = [];
  let bytes = 0;
  while (bytes < data.length) {
    try {
      const reader = new BinaryReader(data.subarray(bytes));
      const size = reader.uint32();
      const end = bytes + reader.pos + size;
      if (end > data.length) break;
      records.push(fromBinary(JournalRecordSchema, data.subarray(bytes + reader.pos, end)));
      bytes = end;
    } catch {
      break;
    }
  }
  return { records, bytes };
}
