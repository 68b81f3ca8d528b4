import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { GuestViolation, guestRingBytes } from '../guest/frame.ts';
import { pieceBytes, takeBuffer } from './buffer-pool.ts';

/** The least a spool keeps: its tail must outlast what a guest may send again after a crash. */
export const minKeptBytes = 4 * guestRingBytes;

/** What stands at an offset. */
export type SpoolRead =
  | { readonly type: 'data'; readonly offset: number; readonly data: Buffer }
  | { readonly type: 'gap'; readonly from: number; readonly to: number }
  | { readonly type: 'nothing' };

/**
 * One output stream on disk: its head, and its tail as a ring behind the head. A file that was never outgrown is simply
 * the stream. Writing the same bytes at the same offset again changes nothing, which is what makes recovery exact.
 */
export interface Spool {
  /** How many bytes the stream has so far. */
  readonly total: number;
  /** Appends, or repeats bytes that were written before. */
  write(offset: number, data: Uint8Array): void;
  /** The data is in a pooled buffer; whoever is done with it gives it back. */
  read(offset: number, limit: number): SpoolRead;
  /** Takes up a spool of an earlier process: `total` bytes are sure, and up to a guest's ring more may have been written. */
  recover(total: number): void;
  /** Takes up a spool whose stream is complete. */
  complete(total: number): void;
  /** Frees the descriptor; reading opens it again. */
  release(): void;
}

export function createSpool(path: string, keptBytes: number): Spool {
  const headBytes = Math.floor(Math.max(keptBytes, minKeptBytes) / 2);
  const tailBytes = headBytes;
  let fd: number | undefined;
  let total = 0;
  /** The ring may hold bytes up to here, so what lies a ring below is gone. */
  let written = 0;

  function file(): number {
    // O_RDWR | O_CREAT, without O_TRUNC or O_APPEND.
    fd ??= openSync(path, 0o102, 0o600);
    return fd;
  }

  /** The longest run from `offset` that is contiguous on disk. */
  function place(offset: number): { at: number; run: number } {
    if (offset < headBytes) return { at: offset, run: headBytes - offset };
    const within = (offset - headBytes) % tailBytes;
    return { at: headBytes + within, run: tailBytes - within };
  }

  function tailStart(): number {
    return Math.max(headBytes, written - tailBytes);
  }

  return {
    get total() {
      return total;
    },
    write(offset, data) {
      let done = 0;
      while (done < data.length) {
        const { at, run } = place(offset + done);
        done += writeSync(file(), data, done, Math.min(run, data.length - done), at);
      }
      total = Math.max(total, offset + data.length);
      written = Math.max(written, total);
    },
    read(offset, limit) {
      if (offset >= total) return { type: 'nothing' };
      if (offset >= headBytes && offset < tailStart()) {
        return { type: 'gap', from: offset, to: Math.min(tailStart(), total) };
      }
      const { at, run } = place(offset);
      const data = takeBuffer(Math.min(run, total - offset, limit, pieceBytes));
      const bytes = readSync(file(), data, 0, data.length, at);
      if (bytes === 0) throw new Error(`the spool ${path} ends at ${fstatSync(file()).size}, before offset ${offset}`);
      return { type: 'data', offset, data: data.subarray(0, bytes) };
    },
    recover(sure) {
      const onDisk = sure === 0 ? 0 : fstatSync(file()).size;
      if (Math.min(sure, headBytes + tailBytes) > onDisk) {
        throw new GuestViolation(`${sure} bytes of output called stored, found ${onDisk}`);
      }
      total = sure;
      written = Math.max(written, sure + guestRingBytes);
    },
    complete(bytes) {
      total = bytes;
      written = bytes;
    },
    release() {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
    },
  };
}
