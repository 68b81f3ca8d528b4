/** Hands what callbacks bring to one reader, in order. Nothing is lost, so whoever sends must not send without end. */
export interface Channel<T> extends AsyncIterable<T> {
  send(value: T): void;
  /** The reader gets what was sent before, then ends or throws. */
  close(error?: unknown): void;
}

export function createChannel<T>(): Channel<T> {
  const values: T[] = [];
  let end: { error: unknown } | 'ended' | undefined;
  let wake = (): void => {};
  return {
    send(value) {
      if (end === undefined) values.push(value);
      wake();
    },
    close(error) {
      end ??= error === undefined ? 'ended' : { error };
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (values.length > 0) yield values.shift() as T;
        if (end === 'ended') return;
        if (end !== undefined) throw end.error;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
