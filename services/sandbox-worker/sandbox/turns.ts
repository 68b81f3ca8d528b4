/** Lets one thing at a time happen to each session, in the order asked for. */
export interface Turns {
  /** Whether something is under way for the session, or waits. */
  busy(sessionId: string): boolean;
  exclusively<T>(sessionId: string, work: () => Promise<T>): Promise<T>;
  /** Resolves when all that is under way or waits by now is over. */
  over(): Promise<unknown>;
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return {
    busy: (sessionId) => last.has(sessionId),
    exclusively(sessionId, work) {
      const result = (last.get(sessionId) ?? Promise.resolve()).then(work, work);
      const mark = result.catch(() => {});
      last.set(sessionId, mark);
      void mark.then(() => {
        if (last.get(sessionId) === mark) last.delete(sessionId);
      });
      return result;
    },
    over: () => Promise.all(last.values()),
  };
}
