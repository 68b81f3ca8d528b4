import type { KeptOutput } from './grader.ts';

/** Keeps the beginning and the end of a stream, whatever its length. */
export interface OutputKeeper {
  /** The bytes are copied. */
  take(data: Uint8Array): void;
  readonly totalBytes: number;
  kept(): KeptOutput;
}

export function createOutputKeeper(limitBytes: number): OutputKeeper {
  const headBytes = Math.ceil(limitBytes / 2);
  const tailBytes = limitBytes - headBytes;
  const head: Buffer[] = [];
  let headHeld = 0;
  let tail: Buffer | undefined;
  let tailTotal = 0;

  const takeTail = (data: Uint8Array): void => {
    tail ??= Buffer.alloc(tailBytes);
    // Of a piece longer than the ring only its end can stay.
    const skipped = Math.max(0, data.length - tailBytes);
    const rest = data.subarray(skipped);
    const at = (tailTotal + skipped) % Math.max(tailBytes, 1);
    const first = rest.subarray(0, tailBytes - at);
    tail.set(first, at);
    tail.set(rest.subarray(first.length), 0);
    tailTotal += data.length;
  };
  return {
    get totalBytes() {
      return headHeld + tailTotal;
    },
    take(data) {
      const first = data.subarray(0, headBytes - headHeld);
      if (first.length > 0) head.push(Buffer.from(first));
      headHeld += first.length;
      if (first.length < data.length) takeTail(data.subarray(first.length));
    },
    kept() {
      const dropped = Math.max(0, tailTotal - tailBytes);
      const parts = [...head];
      if (dropped > 0) parts.push(Buffer.from(`\n[${dropped} bytes left out]\n`));
      if (tail !== undefined) {
        const at = dropped > 0 ? tailTotal % tailBytes : 0;
        parts.push(
          Buffer.from(tail.subarray(at, dropped > 0 ? tailBytes : tailTotal)),
          Buffer.from(tail.subarray(0, at)),
        );
      }
      return { bytes: Buffer.concat(parts), totalBytes: headHeld + tailTotal, truncated: dropped > 0 };
    },
  };
}

/** Outputs one after the other, as one. */
export function joinOutputs(outputs: readonly KeptOutput[]): KeptOutput {
  return {
    bytes: Buffer.concat(outputs.map(({ bytes }) => bytes)),
    totalBytes: outputs.reduce((sum, { totalBytes }) => sum + totalBytes, 0),
    truncated: outputs.some(({ truncated }) => truncated),
  };
}
