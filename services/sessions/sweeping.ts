export interface SweepingDeps {
  /** What the sweep looks at is there. */
  readonly ready: Promise<void>;
  readonly sweep: (isStopped: () => boolean) => Promise<void>;
  readonly everyMs: number;
  readonly onError: (error: unknown) => void;
}

/** Sweeps again and again, one sweep at a time. Returns what ends that. */
export function startSweeping({ ready, sweep, everyMs, onError }: SweepingDeps): () => void {
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  const again = (): void => {
    if (stopped) return;
    sweep(() => stopped)
      .catch(onError)
      .finally(() => {
        if (!stopped) timer = setTimeout(again, everyMs);
      });
  };
  void ready.then(again);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
