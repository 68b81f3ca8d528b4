import { abortable } from '../../shared/abortable.ts';
import type { Semaphore } from '../docker/semaphore.ts';
import type { ProjectLimit } from '../host/project-share.ts';
import type { BuildProgress } from './sample-images.ts';

const repeated = 200;

/** What a build sees of those who wait for it. */
export interface BuildAudience {
  /** Aborted when the build is to stop. */
  readonly signal: AbortSignal;
  tell(news: BuildProgress): void;
  stop(reason: unknown): void;
}

/** A build that several wait for. It goes on for as long as anybody does. */
export interface SharedBuild {
  readonly image: Promise<string>;
  /** Aborted when the build is to stop. */
  readonly signal: AbortSignal;
  /** Hears the latest of what was said so far, then everything. Throws where the project has too many builds. */
  join(project: string, progress: (news: BuildProgress) => void, signal: AbortSignal | undefined): Promise<string>;
}

export interface BuildQueue {
  readonly inTurn: Semaphore;
  readonly enter: ProjectLimit;
}

/** Those of one project who wait for a build. */
interface Party {
  waiting: number;
  /** Takes the build out of the project's queue. */
  readonly unqueue: AbortController;
  readonly uncount: () => void;
}

/** The build is in the queue of every project that waits for it, and begins when the first of them has its turn. */
export function createSharedBuild(
  { inTurn, enter }: BuildQueue,
  build: (audience: BuildAudience) => Promise<string>,
): SharedBuild {
  const stopping = new AbortController();
  const listeners = new Set<(news: BuildProgress) => void>();
  const latest: BuildProgress[] = [];
  const parties = new Map<string, Party>();
  const made = Promise.withResolvers<string>();
  made.promise.catch(() => {});
  let begun = false;

  const audience: BuildAudience = {
    signal: stopping.signal,
    tell(news) {
      latest.push(news);
      if (latest.length > repeated) latest.shift();
      for (const listener of listeners) listener(news);
    },
    stop: (reason) => stopping.abort(reason),
  };
  const begin = async (own: Party): Promise<void> => {
    begun = true;
    for (const party of parties.values()) if (party !== own) party.unqueue.abort();
    await build(audience).then(made.resolve, made.reject);
  };
  const stopUnlessWanted = (reason: unknown): void => {
    if (parties.size > 0) return;
    stopping.abort(reason);
    if (!begun) made.reject(reason);
  };
  const counted = (project: string): (() => void) => {
    try {
      return enter(project);
    } catch (error) {
      stopUnlessWanted(error);
      throw error;
    }
  };
  const queue = (project: string): Party => {
    const party: Party = { waiting: 0, unqueue: new AbortController(), uncount: counted(project) };
    parties.set(project, party);
    // It rejects only where the project has left, or another had its turn first.
    if (!begun) inTurn(() => begin(party), project, party.unqueue.signal).catch(() => {});
    return party;
  };
  const leave = (project: string, party: Party, reason: unknown): void => {
    party.waiting -= 1;
    if (party.waiting > 0) return;
    parties.delete(project);
    party.unqueue.abort();
    party.uncount();
    stopUnlessWanted(reason);
  };
  return {
    image: made.promise,
    signal: stopping.signal,
    async join(project, progress, signal = new AbortController().signal) {
      const party = parties.get(project) ?? queue(project);
      party.waiting += 1;
      for (const news of latest) progress(news);
      listeners.add(progress);
      try {
        return await abortable(signal, made.promise);
      } finally {
        listeners.delete(progress);
        leave(project, party, signal.reason);
        // Who leaves last waits until nothing of the build is left.
        if (stopping.signal.aborted) await made.promise.catch(() => {});
      }
    },
  };
}
