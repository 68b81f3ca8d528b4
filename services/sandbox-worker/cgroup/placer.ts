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
  readonly done: boolean;
}

/**
 * Makes, fills and removes cgroups in a thread of its own. The kernel moves a process only after every core has passed a
 * quiet point, a millisecond or two, and the event loop has better things to do.
 */
export interface Placer {
  place(container: ContainerProcess, directories: readonly string[], namespacePid: number): Promise<boolean>;
  remove(directories: readonly string[]): Promise<boolean>;
}

export function createPlacer(): Placer {
  const waiting = new Map<number, (done: boolean) => void>();
  let last = 0;
  let thread: Worker | undefined;

  function start(): Worker {
    const started = new Worker(new URL('./placement-thread.ts', import.meta.url));
    started.unref();
    started.on('message', ({ id, done }: Answer) => {
      waiting.get(id)?.(done);
      waiting.delete(id);
    });
    started.on('error', () => {
      thread = undefined;
      for (const give of waiting.values()) give(false);
      waiting.clear();
    });
    return started;
  }

  function ask(order: (id: number) => Order): Promise<boolean> {
    thread ??= start();
    const id = ++last;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      thread?.postMessage(order(id));
    });
  }

  return {
    place: (container, directories, namespacePid) =>
      ask((id) => ({ id, type: 'place', container, directories, namespacePid })),
    remove: (directories) => ask((id) => ({ id, type: 'remove', directories })),
  };
}
