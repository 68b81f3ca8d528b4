import type { SubmissionNews, SubmissionOrder } from './submission-thread.ts';
import { createThreadPool, type ThreadPool } from './thread-pool.ts';

/** The threads in which submissions are sealed and applied, so that no stream of the worker is held up by them. */
export type SubmissionThreads = ThreadPool<SubmissionOrder, SubmissionNews>;

export function createSubmissionThreads(most = 2): SubmissionThreads {
  const script = new URL('./submission-thread.ts', import.meta.url);
  // One is left for others: a large submission takes a thread for seconds.
  return createThreadPool({ script, most, mostOfProject: Math.max(1, most - 1), heapMebibytes: 1_024 });
}
