import type { KeptOutput } from './grader.ts';

/** Keeps the beginning and the end of a stream, whatever its length. */
export interface OutputKeeper {
  /** The bytes are copied. */
  take(data: Uint8Array): void;
  readonly totalBytes: number;
  kept(): KeptOutput;
}

const smallestHead = 4_096;

export function createOutputKeeper(limitBytes: number): OutputKeeper {
  const headBytes = Math.ceil(limitBytes / 2);
  const tailBytes = limitBytes - headBytes;
  let head = Buffer.alloc(0);
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
  /** One buffer that grows: a program that writes byte by byte would else leave as many of them. */
  const takeHead = (data: Uint8Array): void => {
    const needed = headHeld + data.length;
    if (needed > head.length) {
      const grown = Buffer.alloc(Math.min(headBytes, Math.max(2 * needed, smallestHead)));
      grown.set(head.subarray(0, headHeld));
      head = grown;
    }
    head.set(data, headHeld);
    headHeld = needed;
  };
  return {
    get totalBytes() {
      return headHeld + tailTotal;
    },
    take(data) {
      const first = data.subarray(0, headBytes - headHeld);
      if (first.length > 0) takeHead(first);
      if (first.length < data.length) takeTail(data.subarray(first.length));
    },
    kept() {
      const dropped = Math.max(0, tailTotal - tailBytes);
      const parts = [head.subarray(0, headHeld)];
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
