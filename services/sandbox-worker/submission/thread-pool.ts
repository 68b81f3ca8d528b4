import { Worker } from 'node:worker_threads';
import { createSemaphore } from '../docker/semaphore.ts';

/** What a thread says of work that failed; it goes on with the next. */
export interface Failure {
  readonly kind: 'failed';
  readonly message: string;
}

/** A thread that does one piece of work. */
export interface Helper<Order, News> {
  send(order: Order): void;
  /** What it says next; throws if it fails, dies, or says nothing for so long, and the signal's reason. */
  next(withinMs: number, signal?: AbortSignal): Promise<News>;
}

/**
 * Threads that are kept for a while: starting one costs more than a small submission does, and each that waits costs some
 * MiB. One that failed in its work or was late is ended, and nobody gets it again.
 */
export interface ThreadPool<Order, News> {
  /** `project` is who waits for it: projects take turns. The signal ends the wait for a thread. */
  use<T>(work: (helper: Helper<Order, News>) => Promise<T>, project?: string, signal?: AbortSignal): Promise<T>;
  close(): Promise<void>;
}

export interface ThreadPoolOptions {
  readonly script: URL;
  /** Threads at one time; whoever comes then waits. */
  readonly most: number;
  /** Of them for one project; unless given, all. */
  readonly mostOfProject?: number;
  readonly heapMebibytes: number;
  /** One that nobody needed for so long is ended. */
  readonly idleMs?: number;
}

/** Small: what a thread leaves behind soon dies. */
const youngMebibytes = 8;

export function createThreadPool<Order, News extends { readonly kind: string }>(
  options: ThreadPoolOptions,
): ThreadPool<Order, News> {
  const { script, most, mostOfProject = most, heapMebibytes, idleMs = 30_000 } = options;
  const limited = createSemaphore(most, () => mostOfProject);
  /** The one that was used last is the last. */
  const idle: { readonly thread: Worker; readonly timer: NodeJS.Timeout }[] = [];

  const start = (): Worker => {
    const thread = new Worker(script, {
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes, maxYoungGenerationSizeMb: youngMebibytes },
    });
    thread.on('exit', () => forget(thread));
    // Without a listener an error between two pieces of work would end the process.
    return thread.on('error', () => {});
  };
  const forget = (thread: Worker): void => {
    const at = idle.findIndex((each) => each.thread === thread);
    if (at >= 0) for (const { timer } of idle.splice(at, 1)) clearTimeout(timer);
  };
  const keep = (thread: Worker): void => {
    thread.unref();
    const end = (): void => {
      forget(thread);
      void thread.terminate();
    };
    idle.push({ thread, timer: setTimeout(end, idleMs).unref() });
  };
  return {
    use: (work, project, signal) =>
      limited(
        async () => {
          const thread = idle.at(-1)?.thread ?? start();
          forget(thread);
          thread.ref();
          const helper = listen<Order, News>(thread);
          try {
            const result = await work(helper);
            keep(thread);
            return result;
          } catch (error) {
            // It may still write where nobody may any more.
            await thread.terminate();
            throw error;
          } finally {
            helper.release();
          }
        },
        project,
        signal,
      ),
    async close() {
      await Promise.all(
        idle.splice(0).map(({ thread, timer }) => {
          clearTimeout(timer);
          return thread.terminate();
        }),
      );
    },
  };
}

function listen<Order, News extends { readonly kind: string }>(
  thread: Worker,
): Helper<Order, News> & { release(): void } {
  const said: (News | Failure)[] = [];
  let failure: Error | undefined;
  let wake = (): void => {};
  const hear = (news: News | Failure): void => {
    said.push(news);
    wake();
  };
  const fail = (error: Error): void => {
    failure ??= error;
    wake();
  };
  const exit = (): void => fail(new Error('its thread ended'));
  thread.on('message', hear).on('error', fail).on('exit', exit);
  return {
    send: (order) => thread.postMessage(order),
    async next(withinMs, signal) {
      signal?.throwIfAborted();
      const abort = (): void => fail(signal?.reason);
      signal?.addEventListener('abort', abort);
      const timer = setTimeout(() => fail(new Error(`it took more than ${withinMs} ms`)), withinMs);
      try {
        while (said.length === 0 && failure === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      }
      const news = said.shift();
      if (news === undefined) throw failure;
      if (isFailure(news)) throw new Error(news.message);
      return news;
    },
    release: () => void thread.off('message', hear).off('error', fail).off('exit', exit),
  };
}

function isFailure(news: { readonly kind: string }): news is Failure {
  return news.kind === 'failed';
}
