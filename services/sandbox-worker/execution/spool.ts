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

/** `path` is asked for when there is something to write or read: most streams of most executions stay empty. */
export function createSpool(path: () => string, keptBytes: number, disk: SpoolDisk = uncounted): Spool {
  return new FileSpool(path, keptBytes, disk);
}

/** A class, because there are two for every execution that a worker remembers. */
class FileSpool implements Spool {
  total = 0;
  held = 0;
  private readonly path: () => string;
  private readonly disk: SpoolDisk;
  private readonly headBytes: number;
  private readonly tailBytes: number;
  private fd: number | undefined;
  /** The ring may hold bytes up to here, so what lies a ring below is gone. */
  private written = 0;
  /** What was given up, from and to; nothing while both are 0. */
  private lostFrom = 0;
  private lostTo = 0;

  constructor(path: () => string, keptBytes: number, disk: SpoolDisk) {
    this.path = path;
    this.disk = disk;
    this.headBytes = Math.floor(Math.max(keptBytes, minKeptBytes) / 2);
    this.tailBytes = this.headBytes;
  }

  write(offset: number, data: Uint8Array): void {
    try {
      this.put(this.file(), offset, data);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC' || !this.disk.full()) throw error;
      this.put(this.file(), offset, data);
    }
    this.total = Math.max(this.total, offset + data.length);
    this.written = Math.max(this.written, this.total);
    this.recount();
  }

  read(offset: number, limit: number): SpoolRead {
    const { total, lostFrom } = this;
    if (offset >= total) return { type: 'nothing' };
    const to = this.gapEnd(offset);
    if (to > offset) return { type: 'gap', from: offset, to: Math.min(to, total) };
    const { at, run } = this.place(offset);
    const until = offset < lostFrom ? Math.min(total, lostFrom) : total;
    const data = takeBuffer(Math.min(run, until - offset, limit, pieceBytes));
    const bytes = readSync(this.file(), data, 0, data.length, at);
    if (bytes === 0) {
      throw new Error(`the spool ${this.path()} ends at ${fstatSync(this.file()).size}, before offset ${offset}`);
    }
    return { type: 'data', offset, data: data.subarray(0, bytes) };
  }

  recover(sure: number): void {
    const onDisk = sure === 0 ? 0 : fstatSync(this.file()).size;
    if (Math.min(sure, this.headBytes + this.tailBytes) > onDisk) {
      throw new GuestViolation(`${sure} bytes of output called stored, found ${onDisk}`);
    }
    this.total = sure;
    this.written = Math.max(this.written, sure + guestRingBytes);
    this.recount();
  }

  complete(bytes: number): void {
    this.total = bytes;
    this.written = bytes;
    this.recount();
  }

  trim(keep: { head: number; tail: number }, losing: (from: number, to: number) => void): void {
    const { total } = this;
    const from = Math.min(keep.head, this.headBytes, this.lostTo === 0 ? total : this.lostFrom);
    const to = Math.max(this.lostTo, total - keep.tail);
    if (to <= from || this.held === 0) return;
    if (from === 0 && to === total) {
      losing(from, to);
      this.release();
      rmSync(this.path(), { force: true });
    } else {
      this.replaceWithout(from, to, losing);
    }
    this.lostFrom = from;
    this.lostTo = to;
    this.recount();
  }

  forgo(from: number, to: number): void {
    this.lostFrom = from;
    this.lostTo = to;
    this.recount();
    // That process may have ended before it did what it had recorded.
    if (this.total > 0 && this.held === 0) rmSync(this.path(), { force: true });
  }

  release(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
  }

  private file(): number {
    // O_RDWR | O_CREAT, without O_TRUNC or O_APPEND.
    this.fd ??= openSync(this.path(), 0o102, 0o600);
    return this.fd;
  }

  /** The longest run from `offset` that is contiguous on disk. */
  private place(offset: number): { at: number; run: number } {
    const { headBytes, tailBytes } = this;
    if (offset < headBytes) return { at: offset, run: headBytes - offset };
    const within = (offset - headBytes) % tailBytes;
    return { at: headBytes + within, run: tailBytes - within };
  }

  private get tailStart(): number {
    return Math.max(this.headBytes, this.written - this.tailBytes);
  }

  /** Where what is there begins again, at the offset or after it. */
  private gapEnd(offset: number): number {
    const { lostFrom, lostTo, headBytes, tailStart } = this;
    let to = offset;
    if (to >= lostFrom && to < lostTo) to = lostTo;
    if (to >= headBytes && to < tailStart) to = tailStart;
    return to < lostTo && to >= lostFrom ? lostTo : to;
  }

  /** How much of a range was not given up. */
  private left(from: number, to: number): number {
    return Math.max(0, Math.min(to, this.lostFrom) - from) + Math.max(0, to - Math.max(from, this.lostTo));
  }

  private recount(): void {
    const { total, headBytes, tailBytes } = this;
    const head = this.left(0, Math.min(total, headBytes));
    const tail = total > headBytes ? this.left(Math.max(headBytes, total - tailBytes), total) : 0;
    const now = Math.ceil((head + tail) / blockBytes) * blockBytes;
    if (now === this.held) return;
    const change = now - this.held;
    this.held = now;
    this.disk.grew(change);
  }

  /** Puts data where its offset belongs in a file of this shape. */
  private put(target: number, offset: number, data: Uint8Array): void {
    let done = 0;
    while (done < data.length) {
      const { at, run } = this.place(offset + done);
      done += writeSync(target, data, done, Math.min(run, data.length - done), at);
    }
  }

  /** Puts another file in its place, with the same bytes in the same places but for those to be lost. */
  private replaceWithout(from: number, to: number, losing: (from: number, to: number) => void): void {
    const copyPath = `${this.path()}.trimmed`;
    const copy = openSync(copyPath, 'w+', 0o600);
    try {
      this.copyPieces(copy, from, to);
      losing(from, to);
      renameSync(copyPath, this.path());
    } catch (error) {
      closeSync(copy);
      rmSync(copyPath, { force: true });
      throw error;
    }
    this.release();
    this.fd = copy;
  }

  private copyPieces(copy: number, from: number, to: number): void {
    const { total } = this;
    // A hole takes no space, and keeps the size what recovery expects.
    ftruncateSync(copy, fstatSync(this.file()).size);
    for (let at = from === 0 ? to : 0; at < total; ) {
      const found = this.read(at, at < from ? from - at : total - at);
      if (found.type === 'nothing') break;
      if (found.type === 'data') {
        this.put(copy, at, found.data);
        returnBuffer(found.data);
      }
      at = found.type === 'data' ? at + found.data.length : found.to;
      if (at >= from && at < to) at = to;
    }
  }
}
