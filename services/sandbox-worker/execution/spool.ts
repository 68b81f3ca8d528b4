import { closeSync, fstatSync, ftruncateSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { GuestViolation, guestRingBytes } from '../guest/frame.ts';
import { pieceBytes, returnBuffer, takeBuffer } from './buffer-pool.ts';

/** The least a spool keeps: its tail must outlast what a guest may send again after a crash. */
export const minKeptBytes = 4 * guestRingBytes;

/** A disk gives space in blocks: a file of one byte takes one. */
const blockBytes = 4_096;

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
  /** How much of the disk it takes. */
  readonly held: number;
  /** Appends, or repeats bytes that were written before. */
  write(offset: number, data: Uint8Array): void;
  /** The data is in a pooled buffer; whoever is done with it gives it back. */
  read(offset: number, limit: number): SpoolRead;
  /** Takes up a spool of an earlier process: `total` bytes are sure, and up to a guest's ring more may have been written. */
  recover(total: number): void;
  /** Takes up a spool whose stream is complete. */
  complete(total: number): void;
  /**
   * Gives up all but this much of its beginning and its end. What will be lost is told before it is, so that it can be
   * recorded; a crash at any moment leaves a file that agrees with the record.
   */
  trim(keep: { head: number; tail: number }, losing: (from: number, to: number) => void): void;
  /** Takes up what an earlier process gave up. */
  forgo(from: number, to: number): void;
  /** Frees the descriptor; reading opens it again. */
  release(): void;
}

/** Whoever counts what the spools take of the disk. */
export interface SpoolDisk {
  /** A spool takes more of it, or less. */
  grew(bytes: number): void;
  /** There is no space left. Returns whether some was made. */
  full(): boolean;
}

const uncounted: SpoolDisk = { grew() {}, full: () => false };

export function createSpool(path: string, keptBytes: number, disk: SpoolDisk = uncounted): Spool {
  const headBytes = Math.floor(Math.max(keptBytes, minKeptBytes) / 2);
  const tailBytes = headBytes;
  let fd: number | undefined;
  let total = 0;
  /** The ring may hold bytes up to here, so what lies a ring below is gone. */
  let written = 0;
  let held = 0;
  /** What was given up, from and to; nothing while both are 0. */
  let lostFrom = 0;
  let lostTo = 0;

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

  /** Where what is there begins again, at the offset or after it. */
  function gapEnd(offset: number): number {
    let to = offset;
    if (to >= lostFrom && to < lostTo) to = lostTo;
    if (to >= headBytes && to < tailStart()) to = tailStart();
    return to < lostTo && to >= lostFrom ? lostTo : to;
  }

  /** How much of a range was not given up. */
  function left(from: number, to: number): number {
    return Math.max(0, Math.min(to, lostFrom) - from) + Math.max(0, to - Math.max(from, lostTo));
  }

  function recount(): void {
    const head = left(0, Math.min(total, headBytes));
    const tail = total > headBytes ? left(Math.max(headBytes, total - tailBytes), total) : 0;
    const now = Math.ceil((head + tail) / blockBytes) * blockBytes;
    if (now === held) return;
    const change = now - held;
    held = now;
    disk.grew(change);
  }

  function release(): void {
    if (fd !== undefined) closeSync(fd);
    fd = undefined;
  }

  /** Puts data where its offset belongs in a file of this shape. */
  function put(target: number, offset: number, data: Uint8Array): void {
    let done = 0;
    while (done < data.length) {
      const { at, run } = place(offset + done);
      done += writeSync(target, data, done, Math.min(run, data.length - done), at);
    }
  }

  function read(offset: number, limit: number): SpoolRead {
    if (offset >= total) return { type: 'nothing' };
    const to = gapEnd(offset);
    if (to > offset) return { type: 'gap', from: offset, to: Math.min(to, total) };
    const { at, run } = place(offset);
    const until = offset < lostFrom ? Math.min(total, lostFrom) : total;
    const data = takeBuffer(Math.min(run, until - offset, limit, pieceBytes));
    const bytes = readSync(file(), data, 0, data.length, at);
    if (bytes === 0) throw new Error(`the spool ${path} ends at ${fstatSync(file()).size}, before offset ${offset}`);
    return { type: 'data', offset, data: data.subarray(0, bytes) };
  }

  /** Puts another file in its place, with the same bytes in the same places but for those to be lost. */
  function replaceWithout(from: number, to: number, losing: (from: number, to: number) => void): void {
    const copyPath = `${path}.trimmed`;
    const copy = openSync(copyPath, 'w+', 0o600);
    try {
      copyPieces(copy, from, to);
      losing(from, to);
      renameSync(copyPath, path);
    } catch (error) {
      closeSync(copy);
      rmSync(copyPath, { force: true });
      throw error;
    }
    release();
    fd = copy;
  }

  function copyPieces(copy: number, from: number, to: number): void {
    // A hole takes no space, and keeps the size what recovery expects.
    ftruncateSync(copy, fstatSync(file()).size);
    for (let at = from === 0 ? to : 0; at < total; ) {
      const found = read(at, at < from ? from - at : total - at);
      if (found.type === 'nothing') break;
      if (found.type === 'data') {
        put(copy, at, found.data);
        returnBuffer(found.data);
      }
      at = found.type === 'data' ? at + found.data.length : found.to;
      if (at >= from && at < to) at = to;
    }
  }

  return {
    get total() {
      return total;
    },
    get held() {
      return held;
    },
    write(offset, data) {
      try {
        put(file(), offset, data);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' || !disk.full()) throw error;
        put(file(), offset, data);
      }
      total = Math.max(total, offset + data.length);
      written = Math.max(written, total);
      recount();
    },
    read,
    recover(sure) {
      const onDisk = sure === 0 ? 0 : fstatSync(file()).size;
      if (Math.min(sure, headBytes + tailBytes) > onDisk) {
        throw new GuestViolation(`${sure} bytes of output called stored, found ${onDisk}`);
      }
      total = sure;
      written = Math.max(written, sure + guestRingBytes);
      recount();
    },
    complete(bytes) {
      total = bytes;
      written = bytes;
      recount();
    },
    trim(keep, losing) {
      const from = Math.min(keep.head, headBytes, lostTo === 0 ? total : lostFrom);
      const to = Math.max(lostTo, total - keep.tail);
      if (to <= from || held === 0) return;
      if (from === 0 && to === total) {
        losing(from, to);
        release();
        rmSync(path, { force: true });
      } else {
        replaceWithout(from, to, losing);
      }
      lostFrom = from;
      lostTo = to;
      recount();
    },
    forgo(from, to) {
      lostFrom = from;
      lostTo = to;
      recount();
      // That process may have ended before it did what it had recorded.
      if (total > 0 && held === 0) rmSync(path, { force: true });
    },
    release,
  };
}
