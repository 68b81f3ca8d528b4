import { createSemaphore, type SharedCount } from './semaphore.ts';

/** Decides when a container may be created: few at once are quickest, whoever waits for one comes first, projects take turns. */
export interface CreateQueue {
  /** The project waits for it. A few run at once. */
  run<T>(task: () => Promise<T>, project?: string): Promise<T>;
  /**
   * Low priority: one at a time, in nobody's way once it runs. It begins while no client waits for a container, or when
   * every project that waits has been served once since the last: a project that never stops cannot hold it up.
   */
  runInBackground<T>(task: () => Promise<T>): Promise<T>;
}

export function createCreateQueue(permits: number, perProject = () => permits, shared?: SharedCount): CreateQueue {
  const limited = createSemaphore(permits, perProject, shared);
  const waiting: (() => void)[] = [];
  const wanted = new Map<string, number>();
  /** Tasks of projects that ended since one in the background began. */
  let served = 0;
  let busy = false;

  function beginNext(): void {
    if (busy || served < wanted.size) return;
    const begin = waiting.shift();
    if (begin === undefined) return;
    busy = true;
    served = 0;
    begin();
  }

  function want(project: string, change: 1 | -1): void {
    const count = (wanted.get(project) ?? 0) + change;
    if (count > 0) wanted.set(project, count);
    else wanted.delete(project);
  }

  return {
    async run(task, project = '') {
      want(project, 1);
      try {
        return await limited(task, project);
      } finally {
        want(project, -1);
        served += 1;
        beginNext();
      }
    },
    async runInBackground(task) {
      await new Promise<void>((resolve) => {
        // What ended before this waited is no turn that it missed.
        if (waiting.length === 0 && !busy) served = 0;
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
