/**
 * How fast output is taken that nobody reads. It must be taken, or its program would never end; taken as fast as it comes,
 * it would take the machine from everybody else.
 */
export interface UnreadPace {
  /** Calls back when it is this one's turn: at once, or when those before it have used up what time brings. It returns how many bytes it took. */
  inTurn(take: () => number): void;
}

/** What may be taken at once after a time in which less was. */
const burstMs = 250;

export function createUnreadPace(bytesPerSecond: number): UnreadPace {
  const bytesPerMs = bytesPerSecond / 1_000;
  const burst = burstMs * bytesPerMs;
  const waiting: (() => number)[] = [];
  let left = burst;
  let countedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let serving = false;

  function serve(): void {
    timer = undefined;
    const now = performance.now();
    left = Math.min(burst, left + (now - countedAt) * bytesPerMs);
    countedAt = now;
    serving = true;
    while (left > 0 && waiting.length > 0) left -= waiting.shift()?.() ?? 0;
    serving = false;
    if (waiting.length > 0) timer = setTimeout(serve, Math.ceil(-left / bytesPerMs) + 1).unref();
  }

  return {
    inTurn(take) {
      waiting.push(take);
      if (timer === undefined && !serving) serve();
    },
  };
}
