import { setTimeout as delay } from 'node:timers/promises';
import { DomainError } from '../../shared/domain-error.ts';
import { statusOf } from './engine-failure.ts';

/** An engine that is restarted is back by then. */
const patienceMs = 45_000;
const lookEveryMs = 250;
/** What fails this often without the engine having refused it fails for another cause than a restart. */
const unexplainedTries = 3;

/**
 * Does the work, and does it again once the engine answers if the engine went away meanwhile. A restart also shows in what it takes away: the
 * first process of a container that is being started, a mount. The work leaves nothing behind when it fails.
 */
export type AcrossRestarts = <T>(work: () => Promise<T>) => Promise<T>;

export function createAcrossRestarts(ping: () => Promise<unknown>): AcrossRestarts {
  return async (work) => {
    const end = performance.now() + patienceMs;
    let unexplained = 0;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const again = isUnanswered(error) || (isUnexplained(error) && ++unexplained < unexplainedTries);
        if (!again || !(await answersBefore(end))) throw error;
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

/** Whether something failed around the engine that the engine itself did not refuse. */
function isUnexplained(error: unknown): boolean {
  if (!(error instanceof DomainError) || error.reason !== 'ENGINE_FAILED') return false;
  return error.cause !== undefined && statusOf(error.cause) === undefined;
}
