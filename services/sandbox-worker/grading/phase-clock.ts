import type { PhaseTiming } from './grader.ts';

/** Adds up where the time goes. */
export interface PhaseClock {
  time<T>(name: string, work: () => Promise<T>): Promise<T>;
  timings(): PhaseTiming[];
}

export function createPhaseClock(now: () => number = () => performance.now()): PhaseClock {
  const spent = new Map<string, number>();
  return {
    async time(name, work) {
      const began = now();
      try {
        return await work();
      } finally {
        spent.set(name, (spent.get(name) ?? 0) + now() - began);
      }
    },
    timings: () => [...spent].map(([name, ms]) => ({ name, ms })),
  };
}
