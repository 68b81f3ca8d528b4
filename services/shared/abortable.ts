/** The promise, unless the signal is aborted first: then its reason is thrown. */
export async function abortable<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  // Nobody hears how it ends once this has thrown.
  promise.catch(() => {});
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  aborted.promise.catch(() => {});
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
