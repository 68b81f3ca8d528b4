/** The size of a pooled buffer, and of the largest piece of output that travels as one message. */
export const pieceBytes = 262_144;

const smallBytes = 16_384;
const keptBuffers = 64;
const free: Buffer[] = [];

/**
 * Buffers for output on its way from the spool to a reader. They are used again and again, because a gibibyte of fresh ones
 * costs the garbage collector more than everything else that is done to the bytes.
 */
export function takeBuffer(bytes: number): Buffer {
  if (bytes <= smallBytes) return Buffer.allocUnsafe(bytes);
  return (free.pop() ?? Buffer.allocUnsafeSlow(pieceBytes)).subarray(0, bytes);
}

/** Gives a buffer back that nobody looks at any more. */
export function returnBuffer(buffer: Buffer): void {
  if (buffer.buffer.byteLength === pieceBytes && free.length < keptBuffers) free.push(Buffer.from(buffer.buffer));
}
