import type { GradingStepName, StepTiming } from './grader.ts';

/** Adds up where the time goes. */
export interface StepClock {
  time<T>(step: GradingStepName, work: () => Promise<T>): Promise<T>;
  timings(): StepTiming[];
}

export function createStepClock(now: () => number = () => performance.now()): StepClock {
  const spent = new Map<GradingStepName, number>();
  return {
    async time(step, work) {
      const began = now();
      try {
        return await work();
      } finally {
        spent.set(step, (spent.get(step) ?? 0) + now() - began);
      }
    },
    timings: () => [...spent].map(([name, ms]) => ({ name, ms })),
  };
}
