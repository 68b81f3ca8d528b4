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

/** Collects the chunks of a stream into messages. Throws a RangeError for a message over the limit or a compressed one. */
export function createGrpcFrameReader(limitBytes: number): { push(chunk: Buffer): Buffer[]; readonly pending: number } {
  let held: Buffer = Buffer.alloc(0);
  return {
    get pending() {
      return held.length;
    },
    push(chunk) {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const messages: Buffer[] = [];
      while (held.length >= grpcPrefixBytes) {
        if (held[0] !== 0) throw new RangeError('a compressed message where none was announced');
        const bytes = held.readUInt32BE(1);
        if (bytes > limitBytes) throw new RangeError(`a message of ${bytes} bytes, over the limit of ${limitBytes}`);
        if (held.length < grpcPrefixBytes + bytes) break;
        messages.push(held.subarray(grpcPrefixBytes, grpcPrefixBytes + bytes));
        held = held.subarray(grpcPrefixBytes + bytes);
      }
      return messages;
    },
  };
}
