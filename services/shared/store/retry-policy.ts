import { setTimeout as delay } from 'node:timers/promises';
import { isRefusal, isTemporary } from './store-error.ts';

/** Total time for retries of a broker that is temporarily unavailable. An election takes four to nine seconds. */
const unavailableMs = 10_000;
const [firstPauseMs, longestPauseMs] = [25, 500];
/** Attempts of a call whose answer is lost; each waits for its own timeout. */
const lostAttempts = 3;

/** Decides, for one call of a store, whether it is tried again after an error. */
export interface RetryPolicy {
  /** Resolves to true when it is time for the next attempt, to false when the error is the call's answer. */
  next(error: unknown): Promise<boolean>;
}

export function createRetryPolicy(): RetryPolicy {
  let lost = 0;
  let pauseMs: number = firstPauseMs;
  let endMs: number | undefined;
  return {
    async next(error) {
      if (!isTemporary(error)) return !isRefusal(error) && ++lost < lostAttempts;
      endMs ??= performance.now() + unavailableMs;
      if (performance.now() + pauseMs > endMs) return false;
      await delay(pauseMs);
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      return true;
    },
  };
}
