const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function byteSize(bytes: number): string {
  if (bytes < 1_024) return `${bytes} bytes`;
  // Rounded up, the last bytes below a gibibyte are one, not 1024 MiB.
  const power = Math.min(Math.floor(Math.log2(bytes * 1.000_005) / 10), units.length);
  return `${Number((bytes / 1_024 ** power).toFixed(2))} ${units[power - 1]}`;
}

/** Sizes as people read them. Different ones that would read the same are told in bytes: a sentence compares them. */
export function byteSizes(...sizes: number[]): string[] {
  const told = sizes.map(byteSize);
  const distinct = new Set(told).size === new Set(sizes).size;
  return distinct ? told : sizes.map((bytes) => `${bytes} bytes`);
}
