/** A timeout that stands still while the sandbox is frozen. */
export interface Deadline {
  pause(): void;
  resume(): void;
  cancel(): void;
}

/** The longest delay a timer takes. */
const timerLimitMs = 2_147_483_647;

export function createDeadline(delayMs: number, expired: () => void): Deadline {
  let leftMs = delayMs;
  let sinceMs = 0;
  /** It has expired, or never will. */
  let over = false;
  let timer: NodeJS.Timeout | undefined;

  function run(): void {
    sinceMs = performance.now();
    timer = setTimeout(
      () => {
        leftMs -= performance.now() - sinceMs;
        timer = undefined;
        if (leftMs > 0.5) {
          run();
          return;
        }
        over = true;
        expired();
      },
      Math.min(Math.max(leftMs, 0), timerLimitMs),
    );
    timer.unref();
  }

  run();
  return {
    pause() {
      if (timer === undefined) return;
      clearTimeout(timer);
      timer = undefined;
      leftMs -= performance.now() - sinceMs;
    },
    resume() {
      if (timer === undefined && !over) run();
    },
    cancel() {
      clearTimeout(timer);
      timer = undefined;
      over = true;
    },
  };
}
