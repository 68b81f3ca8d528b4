/**
 * Lets at most `permits` tasks run at once, and at most `perProject` of one project, asked for whenever one may begin. Of
 * those that wait, projects get their turn one after the other, and each project's own tasks run in order. A task whose
 * signal is aborted while it waits never begins: the signal's reason is thrown at once.
 */
export type Semaphore = <T>(task: () => Promise<T>, project?: string, signal?: AbortSignal) => Promise<T>;

/** What the projects have running in several semaphores together: `perProject` is then the limit for all of them. */
export interface SharedCount {
  readonly running: Map<string, number>;
  /** Of each semaphore, what lets in one that waits. */
  readonly letIn: Set<() => void>;
}

export function createSharedCount(): SharedCount {
  return { running: new Map(), letIn: new Set() };
}

export function createSemaphore(
  permits: number,
  perProject = () => permits,
  { running, letIn: all } = createSharedCount(),
): Semaphore {
  let free = permits;
  /** The project that was served last is last. */
  const waiting = new Map<string, (() => void)[]>();

  const mayRun = (project: string): boolean => free > 0 && (running.get(project) ?? 0) < perProject();
  const take = (project: string): void => {
    free -= 1;
    running.set(project, (running.get(project) ?? 0) + 1);
  };
  const giveBack = (project: string): void => {
    free += 1;
    const left = (running.get(project) ?? 1) - 1;
    if (left > 0) running.set(project, left);
    else running.delete(project);
  };
  const next = (): string | undefined => waiting.keys().find(mayRun);
  /** A permit is taken here for each that waits and may run, so that nobody can overtake it. */
  const letIn = (): void => {
    for (let project = next(); project !== undefined; project = next()) {
      const tasks = waiting.get(project) ?? [];
      const begin = tasks.shift();
      waiting.delete(project);
      if (tasks.length > 0) waiting.set(project, tasks);
      take(project);
      begin?.();
    }
  };
  all.add(letIn);
  const wait = (project: string, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const begin = (): void => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        const others = (waiting.get(project) ?? []).filter((other) => other !== begin);
        if (others.length > 0) waiting.set(project, others);
        else waiting.delete(project);
        reject(signal?.reason);
      };
      const tasks = waiting.get(project) ?? [];
      tasks.push(begin);
      waiting.set(project, tasks);
      signal?.addEventListener('abort', leave, { once: true });
    });
  return async (task, project = '', signal) => {
    signal?.throwIfAborted();
    // One of its own that waits comes first: it waits because no permit was free for the project.
    if (mayRun(project)) take(project);
    else await wait(project, signal);
    try {
      // It may have been aborted between the permit and here.
      signal?.throwIfAborted();
      return await task();
    } finally {
      giveBack(project);
      // The others first: a project that asks for more of the same without a pause must not hold up the rest of its own.
      for (const each of all) if (each !== letIn) each();
      letIn();
    }
  };
}
