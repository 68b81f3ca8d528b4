/** Collects the bytes of a stream up to a limit. */
export interface Collector {
  /** Whether bytes were dropped because they were over the limit. */
  readonly truncated: boolean;
  add(data: Uint8Array): void;
  bytes(): Buffer;
}

export function createCollector(limit: number): Collector {
  const pieces: Uint8Array[] = [];
  let size = 0;
  let truncated = false;
  return {
    get truncated() {
      return truncated;
    },
    add(data) {
      const kept = data.length <= limit - size ? data : data.subarray(0, limit - size);
      truncated ||= kept.length < data.length;
      if (kept.length > 0) pieces.push(kept);
      size += kept.length;
    },
    bytes: () => Buffer.concat(pieces, size),
  };
}
