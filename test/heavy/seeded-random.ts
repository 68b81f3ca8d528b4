/** Choices that a seed makes again. */
export interface SeededRandom {
  /** From 0 to 1, the same row of numbers for the same seed. */
  fraction(): number;
  /** A whole number from 0, below the limit. */
  below(limit: number): number;
  /** Whether a thing of this chance happens. */
  some(chance: number): boolean;
  one<T>(of: readonly T[]): T;
}

/** mulberry32 */
export function createSeededRandom(seed: number): SeededRandom {
  let state = seed;
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    some: (chance) => fraction() < chance,
    one: (of) => of[below(of.length)] as (typeof of)[number],
  };
}
