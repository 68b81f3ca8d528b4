/** What one read from a busy line may bring, and one from a line that has little to say: most have. */
const largeBytes = 262_144;
const smallBytes = 8_192;
const keptBuffers = 64;
/** A read that fills less than this part of its memory is copied. */
const worthKeeping = 4;
const free: Buffer[] = [];

/** The memory that a line is read into: lent for one read after another, and given back when what was read has been passed on. */
export interface ReadBuffers {
  /** For the next read. */
  next(): Buffer;
  /** What the last read brought, and how to give its memory back. */
  filled(bytes: number): [Buffer, () => void];
  /** There are no more reads. */
  close(): void;
}

/** `limit`: what the next read may bring; a small one is always allowed. */
export function createReadBuffers(limit: () => number): ReadBuffers {
  let current: Buffer | undefined;
  let busy = false;
  return {
    next() {
      const large = busy && limit() >= largeBytes;
      const bytes = large ? largeBytes : smallBytes;
      if (current?.length !== bytes) {
        if (current !== undefined) giveBack(current);
        current = (large ? free.pop() : undefined) ?? Buffer.allocUnsafeSlow(bytes);
      }
      return current;
    },
    filled(bytes) {
      const used = current as Buffer;
      busy = bytes >= smallBytes;
      // Little in much memory would hold all of it for as long as a client does not read: that is copied.
      if (bytes < used.length / worthKeeping) return [Buffer.from(used.subarray(0, bytes)), () => {}];
      current = undefined;
      return [used.subarray(0, bytes), () => giveBack(used)];
    },
    close() {
      if (current !== undefined) giveBack(current);
      current = undefined;
    },
  };
}

function giveBack(buffer: Buffer): void {
  if (buffer.length === largeBytes && free.length < keptBuffers) free.push(buffer);
}
