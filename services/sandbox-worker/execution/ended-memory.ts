import type { Execution } from './execution.ts';

/** How many ended executions are in memory; the others are read from their journals when somebody asks for them. */
export interface EndedMemoryLimits {
  readonly perSession: number;
  readonly perWorker: number;
}

/** The ended executions of one session that are in memory, oldest first. */
export interface EndedOfSession {
  readonly kept: Set<Execution>;
  /** Drops it from memory. False: somebody uses it. */
  evict(execution: Execution): boolean;
}

/** Bounds the ended executions that all sessions of a worker have in memory. */
export interface EndedMemory {
  /** It has ended, or was read back: it stays until newer ones need its place. */
  keep(execution: Execution, session: EndedOfSession): void;
  /** The session is no longer this worker's. */
  release(session: EndedOfSession): void;
}

export function createEndedMemory({ perSession, perWorker }: EndedMemoryLimits): EndedMemory {
  const all = new Map<Execution, EndedOfSession>();

  function put(execution: Execution, session: EndedOfSession): void {
    session.kept.add(execution);
    all.set(execution, session);
  }

  function remove(execution: Execution, session: EndedOfSession): void {
    session.kept.delete(execution);
    all.delete(execution);
  }

  /** One that is in use goes to the end, so that each call tries one. */
  function evict(execution: Execution, session: EndedOfSession): void {
    remove(execution, session);
    if (!session.evict(execution)) put(execution, session);
  }

  return {
    keep(execution, session) {
      remove(execution, session);
      put(execution, session);
      const [oldest] = session.kept;
      if (session.kept.size > perSession && oldest !== undefined) evict(oldest, session);
      if (all.size <= perWorker) return;
      const [first] = all;
      if (first !== undefined) evict(...first);
    },
    release(session) {
      for (const execution of session.kept) all.delete(execution);
      session.kept.clear();
    },
  };
}
