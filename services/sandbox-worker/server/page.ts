const usualSize = 100;
const largestSize = 1_000;

/** One page of what is numbered, oldest first; the token is the last number that was shown. */
export function pageOf<T extends { readonly spec: { readonly number: bigint } }>(
  pageSize: number,
  pageToken: string,
  list: (after: bigint, limit: number) => readonly T[],
): { shown: T[]; nextPageToken: string } {
  const size = pageSize <= 0 ? usualSize : Math.min(pageSize, largestSize);
  const found = list(pageToken === '' ? 0n : BigInt(pageToken), size + 1);
  const shown = found.slice(0, size);
  return { shown, nextPageToken: found.length > size ? String(shown.at(-1)?.spec.number ?? '') : '' };
}
