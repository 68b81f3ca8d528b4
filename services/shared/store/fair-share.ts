/**
 * What each holder has to give up so that `needed` is freed: always the one that holds most gives, down to the level of the
 * next. So none gives anything while another one holds more.
 */
export function fairLossOf(held: ReadonlyMap<string, number>, needed: number): Map<string, number> {
  const largestFirst = [...held].sort(([, a], [, b]) => b - a);
  let above = 0;
  let count = 0;
  let level = 0;
  for (const [, bytes] of largestFirst) {
    // Were all before this one brought down to it, would that be enough?
    if (count > 0 && above - count * bytes >= needed) break;
    above += bytes;
    count += 1;
    level = Math.max(0, (above - needed) / count);
  }
  return new Map(largestFirst.slice(0, count).map(([name, bytes]) => [name, bytes - level] as const));
}
