import { AssayError } from './assay-error.ts';
import type { StreamName } from './execution-event.ts';

/**
 * Where a reader is in one output stream. It turns what arrives, possibly twice or overlapping after a reconnect, into
 * every byte once and in order, and does not let a hole pass.
 */
export interface OutputCursor {
  /** The first byte that has not been seen. */
  readonly position: number;
  /** The part of a run of bytes that is new, or undefined when all of it was seen. */
  take(offset: number, data: Uint8Array): Uint8Array | undefined;
  /** The part of a gap that is new, or undefined when the reader is beyond it. */
  skip(startOffset: number, endOffset: number): { startOffset: number; endOffset: number } | undefined;
}

export function createOutputCursor(stream: StreamName, start: number): OutputCursor {
  let position = start;

  function refuseHole(offset: number): void {
    if (offset <= position) return;
    throw new AssayError(
      'OUTPUT_HOLE',
      `${stream} jumps from byte ${position} to byte ${offset} and no gap was told; reading again from ${position}`,
      { code: 'DATA_LOSS', transient: true },
    );
  }

  return {
    get position() {
      return position;
    },
    take(offset, data) {
      refuseHole(offset);
      const seen = position - offset;
      if (seen >= data.length) return undefined;
      position = offset + data.length;
      return seen === 0 ? data : data.subarray(seen);
    },
    skip(startOffset, endOffset) {
      refuseHole(startOffset);
      if (endOffset <= position) return undefined;
      const gap = { startOffset: position, endOffset };
      position = endOffset;
      return gap;
    },
  };
}
