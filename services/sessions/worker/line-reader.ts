import { grpcPrefixBytes, readTrailers, trailersFlag } from '../../shared/grpc-frame.ts';

const headLimit = 8_192;
const trailersLimit = 65_536;

/** Finds in the answer on a line where its head ends and its trailers begin. What lies between is passed on as it came. */
export interface LineReader {
  /** Returns whether more is wanted now. Throws where the answer makes no sense. */
  push(bytes: Buffer, release: () => void): boolean;
}

export interface LineParts {
  /** There is an answer, and it is no refusal. */
  begin(): void;
  /** gRPC frames, cut anywhere. Whoever has them calls `release`. */
  frames(bytes: Buffer, release: () => void): boolean;
  /** The trailers, or the headers of an answer that has nothing else. */
  end(trailers: Record<string, string>): void;
}

export function createLineReader(parts: LineParts): LineReader {
  let head: Buffer | undefined = Buffer.alloc(0);
  let trailers: Buffer | undefined;
  /** What is left of the message that has begun. */
  let left = 0;
  /** How much of a prefix was seen, and the length so far. */
  let prefixed = 0;
  let size = 0;

  /** Where the frames begin in these bytes: behind the head, if that ends here. */
  function readHead(seen: Buffer, bytes: Buffer): number {
    const all = Buffer.concat([seen, bytes]);
    const end = all.indexOf('\r\n\r\n');
    if (end < 0 && all.length > headLimit) throw new Error(`its head is over ${headLimit} bytes`);
    head = end < 0 ? all : undefined;
    if (end < 0) return bytes.length;
    const text = all.toString('latin1', 0, end);
    if (!text.startsWith('HTTP/1.1 200 ')) throw new Error(`it answered with ${text.slice(0, 64).split('\r\n')[0]}`);
    const headers = readTrailers(text);
    if (headers['grpc-status'] === undefined) parts.begin();
    else parts.end(headers);
    return end + 4 - seen.length;
  }

  /** Where the trailers begin, or the end. */
  function endOfMessages(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length) {
      if (left > 0) {
        const part = Math.min(left, bytes.length - at);
        left -= part;
        at += part;
        continue;
      }
      const byte = bytes[at] as number;
      if (prefixed === 0 && (byte & trailersFlag) !== 0) return at;
      // The first byte of a prefix is the flag, the others the length.
      size = prefixed === 0 ? 0 : size * 256 + byte;
      prefixed += 1;
      at += 1;
      if (prefixed < grpcPrefixBytes) continue;
      prefixed = 0;
      left = size;
    }
    return at;
  }

  function readEnd(seen: Buffer, bytes: Buffer): void {
    const all = Buffer.concat([seen, bytes]);
    trailers = all;
    if (all.length < grpcPrefixBytes) return;
    const end = grpcPrefixBytes + all.readUInt32BE(1);
    if (end > trailersLimit) throw new Error(`its trailers are over ${trailersLimit} bytes`);
    if (all.length >= end) parts.end(readTrailers(all.toString('latin1', grpcPrefixBytes, end)));
  }

  return {
    push(bytes, release) {
      const from = head === undefined ? 0 : readHead(head, bytes);
      const to = trailers === undefined ? endOfMessages(bytes, from) : from;
      // Copied before the frames are given away, and with them the memory.
      const rest = to < bytes.length ? Buffer.from(bytes.subarray(to)) : undefined;
      let more = true;
      if (to > from) more = parts.frames(bytes.subarray(from, to), release);
      else release();
      if (rest !== undefined) readEnd(trailers ?? Buffer.alloc(0), rest);
      return more;
    },
  };
}
