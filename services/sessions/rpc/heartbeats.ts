/** How long a stream may be silent. */
const heartbeatMs = 10_000;

/** What a source yields, and a heartbeat whenever it has been silent for a while. Leaving the loop ends the source. */
export async function* withHeartbeats<T, H>(
  source: AsyncGenerator<T>,
  heartbeat: () => H,
  silentMs = heartbeatMs,
): AsyncGenerator<T | H> {
  let next = source.next();
  // A failure is told when it is waited for.
  next.catch(() => {});
  try {
    for (;;) {
      const silence = Promise.withResolvers<undefined>();
      const timer = setTimeout(silence.resolve, silentMs, undefined);
      const found = await Promise.race([next, silence.promise]).finally(() => clearTimeout(timer));
      if (found === undefined) {
        yield heartbeat();
        continue;
      }
      if (found.done) return;
      yield found.value;
      next = source.next();
      next.catch(() => {});
    }
  } finally {
    // It may be parked in a wait that only its signal ends.
    void source.return(undefined).catch(() => {});
  }
}
