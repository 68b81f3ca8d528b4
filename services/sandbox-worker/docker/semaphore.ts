/** Lets at most `permits` tasks run at once; the others wait in order. */
export function createSemaphore(permits: number): <T>(task: () => Promise<T>) => Promise<T> {
  let free = permits;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await task();
    } finally {
      // A permit goes straight to the next in line, so that nobody can overtake it.
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}
