import type { Logger } from '../../shared/log.ts';
import type { JobSource } from '../../shared/store/job-queue.ts';
import { projectSlots } from '../host/project-share.ts';
import { decodeJob, type JobHandler } from './job-handler.ts';

export interface JobLoopDeps {
  readonly jobs: JobSource;
  readonly handler: Pick<JobHandler, 'handle' | 'stop'>;
  /** Jobs at one time. */
  readonly slots: number;
  /** Of the slots, the percentage that one project may hold; 100: all of them. */
  readonly sharePercent: number;
  /** Whether the worker takes work now. */
  readonly open?: () => boolean;
  readonly log: Logger;
  /** How often the queue is looked at for what no hint told of: jobs that come again, hints that were lost. */
  readonly lookEveryMs?: number;
}

/**
 * Takes jobs while there are free slots, one from each project in turn, so that no project waits for another's queue. No project
 * holds all slots, so that none waits for gradings of another that do not end.
 */
export interface JobLoop {
  /** Takes no more, gives back what is under way, and resolves when all of it is. */
  stop(): Promise<void>;
}

export function startJobLoop({
  jobs,
  handler,
  slots,
  sharePercent,
  log,
  open = () => true,
  lookEveryMs = 1_000,
}: JobLoopDeps): JobLoop {
  const slotsOfProject = projectSlots(slots, sharePercent);
  /** Projects that may have a job waiting; the one that was served last is last. */
  const waiting = new Set<string>();
  /** Work under way, and whose it is. */
  const busy = new Map<Promise<void>, string>();
  let taking = false;
  let stopped = false;

  const isAtShare = (project: string): boolean =>
    busy
      .values()
      .filter((owner) => owner === project)
      .toArray().length >= slotsOfProject;
  const takeOne = async (project: string): Promise<void> => {
    waiting.delete(project);
    const delivery = await jobs.take(project);
    if (delivery === undefined) return;
    waiting.add(project);
    const owner = decodeJob(delivery.data)?.project ?? project;
    // The jobs for this worker alone are of all projects, and whose the next one is shows only now.
    if (isAtShare(owner)) return delivery.nak(lookEveryMs);
    const work = handler.handle(delivery).finally(() => {
      busy.delete(work);
      void fill();
    });
    busy.set(work, owner);
  };
  /** One taker at a time: slots are counted, and turns are kept, without an await in between. */
  const fill = async (): Promise<void> => {
    if (taking) return;
    taking = true;
    try {
      while (!stopped && busy.size < slots && open()) {
        // One at its share keeps its turn, until work of its own ends and calls this again.
        const project = waiting.values().find((name) => !isAtShare(name));
        if (project === undefined) break;
        await takeOne(project);
      }
    } catch (error) {
      log.warn({ err: error }, 'the work queue does not answer; looking again');
    } finally {
      taking = false;
    }
  };
  const heard = (project: string): void => {
    waiting.add(project);
    void fill();
  };
  const look = async (): Promise<void> => {
    if (stopped || busy.size >= slots || !open()) return;
    try {
      for (const project of await jobs.projects()) waiting.add(project);
      await fill();
    } catch (error) {
      log.debug({ err: error }, 'the work queue cannot be looked at');
    }
  };
  const unhear = jobs.onJob(heard);
  const looking = setInterval(() => void look(), lookEveryMs);
  void look();
  return {
    async stop() {
      stopped = true;
      clearInterval(looking);
      unhear();
      handler.stop();
      while (busy.size > 0) await Promise.allSettled(busy.keys());
    },
  };
}
