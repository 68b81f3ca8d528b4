/**
 * Handles the failures of callbacks that nobody awaits: timers, and promises that are left to themselves. An error that
 * reached the process would end it for every sandbox, so each sandbox has a boundary of its own.
 */
export interface FailureBoundary {
  /** The same callback; an error in it goes to the boundary's owner. */
  guard<Args extends unknown[]>(callback: (...args: Args) => void): (...args: Args) => void;
  /** Takes charge of work that nobody awaits. */
  own(work: Promise<unknown>): void;
}

/** `failed` is told every error, and must not throw. */
export function createFailureBoundary(failed: (error: unknown) => void): FailureBoundary {
  return {
    guard:
      (callback) =>
      (...args) => {
        try {
          callback(...args);
        } catch (error) {
          failed(error);
        }
      },
    own: (work) => void work.catch(failed),
  };
}
