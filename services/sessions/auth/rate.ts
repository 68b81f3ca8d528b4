const windowMs = 1_000;
/** Past this many names, those of earlier windows are forgotten, once in a window. */
const namesLimit = 10_000;

/** So many a second for each name. It answers at once: a limiter that makes promises costs more than what it guards. */
export interface Rate {
  /** Counts one; false when it is over the limit. */
  spend(name: string): boolean;
}

export function createRate(perSecond: number, now: () => number = performance.now.bind(performance)): Rate {
  const windows = new Map<string, { endsMs: number; spent: number }>();
  let cleanMs = 0;

  function forgetOld(ms: number): void {
    cleanMs = ms + windowMs;
    for (const [name, { endsMs }] of windows) if (endsMs <= ms) windows.delete(name);
  }

  return {
    spend(name) {
      const ms = now();
      const window = windows.get(name);
      if (window !== undefined && ms < window.endsMs) return ++window.spent <= perSecond;
      if (windows.size >= namesLimit && ms >= cleanMs) forgetOld(ms);
      windows.set(name, { endsMs: ms + windowMs, spent: 1 });
      return perSecond >= 1;
    },
  };
}
