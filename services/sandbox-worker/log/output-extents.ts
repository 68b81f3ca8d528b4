import type { Stream } from '../guest/frame.ts';
import { encodeOutput, type OutputExtent } from './log-record.ts';

/** Past this many the order within one write becomes coarser instead of the journal larger. */
const limit = 32;

/** Output that was stored and has no record in the journal yet, in order. */
export interface OutputExtents {
  add(number: bigint, stream: Stream, from: number, to: number): void;
  /** Takes all of it, as records. */
  take(): Buffer[];
}

export function createOutputExtents(now: () => number = Date.now): OutputExtents {
  let extents: Array<{ -readonly [Key in keyof OutputExtent]: OutputExtent[Key] }> = [];

  function earlier(number: bigint, stream: Stream) {
    const last = extents.at(-1);
    if (last !== undefined && last.number === number && last.stream === stream) return last;
    if (extents.length < limit) return undefined;
    return extents.findLast((extent) => extent.number === number && extent.stream === stream);
  }

  return {
    add(number, stream, from, to) {
      const extent = earlier(number, stream);
      if (extent !== undefined) extent.to = to;
      else extents.push({ number, stream, from, to, timeMs: now() });
    },
    take() {
      if (extents.length === 0) return [];
      const records = extents.map(encodeOutput);
      extents = [];
      return records;
    },
  };
}
