import type { DescMethod } from '@bufbuild/protobuf';

/** Where a method is called. */
export function methodPath({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/** gRPC's own framing: a zero byte (not compressed), a big-endian length, the message. */
export const grpcPrefixBytes = 5;

export function grpcPrefix(messageBytes: number): Buffer {
  const prefix = Buffer.allocUnsafe(grpcPrefixBytes);
  prefix[0] = 0;
  prefix.writeUInt32BE(messageBytes, 1);
  return prefix;
}

export function grpcFrame(message: Uint8Array): Buffer {
  return Buffer.concat([grpcPrefix(message.length), message]);
}

/** What marks the frame with which an answer of gRPC-Web ends. */
export const trailersFlag = 0x80;

/** Trailers in the body, as gRPC-Web has them. */
export function trailersFrame(trailers: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`);
  const frame = grpcFrame(Buffer.from(lines.join('')));
  frame[0] = trailersFlag;
  return frame;
}

/** The other half of trailersFrame, without the prefix. */
export function readTrailers(text: string): Record<string, string> {
  const trailers: Record<string, string> = {};
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) trailers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return trailers;
}

/** Collects the chunks of a stream into messages. Throws a RangeError for a message over the limit or a compressed one. */
export function createGrpcFrameReader(limitBytes: number): { push(chunk: Buffer): Buffer[]; readonly pending: number } {
  /** What of it is filled belongs to a message that is not whole. */
  let held: Buffer = Buffer.alloc(0);
  let filled = 0;

  /** All that was not read yet. Room grows by doubling: a message may come in pieces of a byte. */
  function withHeld(chunk: Buffer): Buffer {
    if (filled === 0) return chunk;
    const bytes = filled + chunk.length;
    if (bytes > held.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * filled));
      held.copy(larger, 0, 0, filled);
      held = larger;
    }
    chunk.copy(held, filled);
    return held.subarray(0, bytes);
  }

  return {
    get pending() {
      return filled;
    },
    push(chunk) {
      const messages: Buffer[] = [];
      const unread = withHeld(chunk);
      let at = 0;
      while (unread.length - at >= grpcPrefixBytes) {
        if (unread[at] !== 0) throw new RangeError('a compressed message where none was announced');
        const bytes = unread.readUInt32BE(at + 1);
        if (bytes > limitBytes) throw new RangeError(`a message of ${bytes} bytes, over the limit of ${limitBytes}`);
        const end = at + grpcPrefixBytes + bytes;
        if (unread.length < end) break;
        messages.push(unread.subarray(at + grpcPrefixBytes, end));
        at = end;
      }
      // What was given away is never written to again: from here on the rest stands by itself.
      if (at > 0 || filled === 0) held = unread.subarray(at);
      filled = unread.length - at;
      return messages;
    },
  };
}
