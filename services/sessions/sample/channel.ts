/** Hands what several senders bring to one reader, in order. */
export interface Channel<T> extends AsyncIterable<T> {
  /** Resolves once the reader comes back for more, or is gone: whoever waits for it has no more than one value here. */
  send(value: T): Promise<void>;
  /** The reader gets what was sent before, then ends or throws. */
  close(error?: unknown): void;
}

export function createChannel<T>(): Channel<T> {
  const waiting: { readonly value: T; readonly taken: () => void }[] = [];
  let end: { error: unknown } | 'ended' | undefined;
  let wake = (): void => {};
  const close = (error?: unknown): void => {
    end ??= error === undefined ? 'ended' : { error };
    wake();
  };
  return {
    close,
    async send(value) {
      if (end !== undefined) return;
      await new Promise<void>((taken) => {
        waiting.push({ value, taken });
        wake();
      });
    },
    async *[Symbol.asyncIterator]() {
      try {
        for (;;) {
          for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
            try {
              yield next.value;
            } finally {
              next.taken();
            }
          }
          if (end === 'ended') return;
          if (end !== undefined) throw end.error;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        close();
        for (const { taken } of waiting) taken();
      }
    },
  };
}
