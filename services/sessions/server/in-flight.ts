/** Counts calls until they are done. */
export interface InFlight {
  /** `call` is what closes when it is. */
  track(call: { once(event: 'close', listener: () => void): unknown }): void;
  /** Resolves when none is left, or when the time is up. */
  settled(withinMs: number): Promise<void>;
}

export function createInFlight(): InFlight {
  let open = 0;
  let onNone = (): void => {};
  return {
    track(call) {
      open += 1;
      call.once('close', () => {
        open -= 1;
        if (open === 0) onNone();
      });
    },
    settled(withinMs) {
      if (open === 0) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        onNone = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}
