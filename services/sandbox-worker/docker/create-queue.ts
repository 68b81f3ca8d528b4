import { createSemaphore } from './semaphore.ts';

/** Decides when a container may be created: few at once are quickest, and whoever waits for one comes first. */
export interface CreateQueue {
  /** Somebody waits for it. A few run at once, the others wait in order. */
  run<T>(task: () => Promise<T>): Promise<T>;
  /** Nobody waits for it yet: one at a time, begun only while nobody else creates, and in nobody's way once it runs. */
  runWhenIdle<T>(task: () => Promise<T>): Promise<T>;
}

export function createCreateQueue(permits: number): CreateQueue {
  const limited = createSemaphore(permits);
  const waiting: (() => void)[] = [];
  let wanted = 0;
  let busy = false;

  function beginNext(): void {
    if (busy || wanted > 0) return;
    const begin = waiting.shift();
    if (begin === undefined) return;
    busy = true;
    begin();
  }

  return {
    async run(task) {
      wanted += 1;
      try {
        return await limited(task);
      } finally {
        wanted -= 1;
        beginNext();
      }
    },
    async runWhenIdle(task) {
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        beginNext();
      });
      try {
        return await task();
      } finally {
        busy = false;
        beginNext();
      }
    },
  };
}
