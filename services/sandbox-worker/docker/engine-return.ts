import { setTimeout as delay } from 'node:timers/promises';

/** An engine that is restarted is back by then. */
const patienceMs = 45_000;
const lookEveryMs = 250;

/** Does the work, and does it again once the engine answers if the engine went away meanwhile. The work leaves nothing behind when it fails. */
export type AcrossRestarts = <T>(work: () => Promise<T>) => Promise<T>;

export function createAcrossRestarts(ping: () => Promise<unknown>): AcrossRestarts {
  return async (work) => {
    const end = performance.now() + patienceMs;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isUnanswered(error) || !(await answersBefore(end))) throw error;
      }
    }
  };

  async function answersBefore(end: number): Promise<boolean> {
    while (performance.now() < end) {
      await delay(lookEveryMs);
      const answers = await ping().then(
        () => true,
        () => false,
      );
      if (answers) return true;
    }
    return false;
  }
}

/** Whether the engine broke off the connection, or there was none to be had. */
export function isUnanswered(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === 'ECONNRESET' || code === 'EPIPE' || syscall === 'connect') return true;
  return isUnanswered(error.cause);
}
