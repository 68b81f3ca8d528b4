import type { BuildProgress } from './sample-images.ts';

const repeated = 200;

/** A build that several wait for. It goes on for as long as anybody does. */
export interface SharedBuild {
  readonly image: Promise<string>;
  /** Aborted when the build is to stop. */
  readonly signal: AbortSignal;
  tell(news: BuildProgress): void;
  stop(reason: unknown): void;
  /** Hears the latest of what was said so far, then everything. */
  join(progress: (news: BuildProgress) => void, signal: AbortSignal | undefined): Promise<string>;
}

export function createSharedBuild(build: (shared: SharedBuild) => Promise<string>): SharedBuild {
  const stopping = new AbortController();
  const listeners = new Set<(news: BuildProgress) => void>();
  const latest: BuildProgress[] = [];
  let waiting = 0;

  const leave = (signal: AbortSignal): void => {
    waiting -= 1;
    if (waiting === 0) stopping.abort(signal.reason);
  };
  const shared: Omit<SharedBuild, 'image'> = {
    signal: stopping.signal,
    tell(news) {
      latest.push(news);
      if (latest.length > repeated) latest.shift();
      for (const listener of listeners) listener(news);
    },
    stop: (reason) => stopping.abort(reason),
    async join(progress, signal) {
      for (const news of latest) progress(news);
      listeners.add(progress);
      waiting += 1;
      try {
        return await (signal === undefined ? image : unlessAborted(image, signal, () => leave(signal)));
      } finally {
        listeners.delete(progress);
      }
    },
  };
  // Once the caller has it in hand: what it builds may tell of itself at once.
  const image: Promise<string> = Promise.resolve().then(() => build({ ...shared, image }));
  image.catch(() => {});
  return { ...shared, image };

  /** Who leaves last waits until nothing of the build is left. */
  async function unlessAborted(made: Promise<string>, signal: AbortSignal, left: () => void): Promise<string> {
    let abort = (): void => {};
    const aborted = new Promise<'aborted'>((resolve) => {
      abort = () => resolve('aborted');
      signal.addEventListener('abort', abort);
      if (signal.aborted) abort();
    });
    try {
      const outcome = await Promise.race([made, aborted]);
      if (outcome !== 'aborted') return outcome;
      left();
      if (stopping.signal.aborted) await made.catch(() => {});
      throw signal.reason;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}
