import { Worker } from 'node:worker_threads';
import type { ContainerProcess } from './container-process.ts';

/** What the thread is told. */
export type Order = { readonly id: number; readonly directories: readonly string[] } & (
  | { readonly type: 'place'; readonly container: ContainerProcess; readonly namespacePid: number }
  | { readonly type: 'remove' }
);

/** What it answers. */
export interface Answer {
  readonly id: number;
  /** Where the child was placed: its pid here. */
  readonly pid?: number | undefined;
  readonly removed?: boolean;
}

/**
 * Makes, fills and removes cgroups in a thread of its own. The kernel moves a process only after every core has passed a
 * quiet point, a millisecond or two, and the event loop has better things to do.
 */
export interface Placer {
  /** Resolves with the child's pid here, or undefined where it cannot be placed. */
  place(container: ContainerProcess, directories: readonly string[], namespacePid: number): Promise<number | undefined>;
  remove(directories: readonly string[]): Promise<boolean>;
}

export function createPlacer(): Placer {
  const waiting = new Map<number, (answer: Answer) => void>();
  let last = 0;
  let thread: Worker | undefined;

  function start(): Worker {
    const started = new Worker(new URL('./placement-thread.ts', import.meta.url));
    started.unref();
    started.on('message', (answer: Answer) => {
      waiting.get(answer.id)?.(answer);
      waiting.delete(answer.id);
    });
    started.on('error', () => {
      thread = undefined;
      for (const [id, give] of waiting) give({ id });
      waiting.clear();
    });
    return started;
  }

  function ask(order: (id: number) => Order): Promise<Answer> {
    thread ??= start();
    const id = ++last;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      thread?.postMessage(order(id));
    });
  }

  return {
    place: async (container, directories, namespacePid) =>
      (await ask((id) => ({ id, type: 'place', container, directories, namespacePid }))).pid,
    remove: async (directories) => (await ask((id) => ({ id, type: 'remove', directories }))).removed ?? false,
  };
}
