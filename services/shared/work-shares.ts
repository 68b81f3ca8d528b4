/**
 * Shares the event loop of a process between projects. A project that asks for much waits behind itself: work is started
 * in the order of start-time fair queuing, by the time that each project's work has taken, and only for a slice of every
 * turn of the event loop, so that what others send is read in between. Work that finds the loop idle starts at once.
 */
export interface WorkShares {
  /**
   * Undefined: the project may go on now. Else resolves when its turn has come. Ask again after every small piece of work.
   * `bytes`: how much a long message has, which costs more than the time that the work itself takes.
   */
  turn(project: string, bytes?: number): Promise<void> | undefined;
  /** Runs the work now, or when its turn has come. Work of one project runs in the order in which it was given. */
  run(project: string, work: () => void): void;
  /** How many wait. */
  readonly waiting: number;
  /** Whether more than one project has asked for a turn within the last second. */
  readonly contended: boolean;
}

export interface WorkSharesOptions {
  /** How long the work of all projects may take in one turn of the event loop. */
  readonly sliceMs?: number;
  /** The same while only one project has asked for a second. */
  readonly aloneSliceMs?: number;
  /**
   * The part of the time that one project may take while others work too, 0 to 1. The rest stays idle, so that a request of another
   * project mostly finds the loop idle instead of waiting for a piece of work at every step of its way. 1: no limit.
   */
  readonly busyPart?: number;
  /** What the project pays for a mebibyte beside the time that its work takes. */
  readonly mebibyteMs?: number;
  readonly now?: () => number;
}

/** A request passes each loop several times, and waits for about one slice each time. */
const defaultSliceMs = 0.5;
/** Every turn of the loop costs some microseconds, which nobody gains from while nobody else is there. */
const defaultAloneSliceMs = 2;
const aloneAfterMs = 1_000;
/** The most that one piece of work is counted as. No piece takes longer, but the process may be frozen while one runs. */
const longestMs = 1_000;
/** What both services leave to one project while others work. */
export const serviceBusyPart = 0.5;
/**
 * What a mebibyte of requests and answers costs the sessions service beside the time of its turns: the kernel's copies, and
 * the collector's pauses, which come later and in nobody's turn. A worker behind it pays as much again, and so do programs.
 * Measured by what keeps another project's commands quick: with 20 they still took eight times as long.
 */
export const mebibyteMs = 60;
/** Shorter messages pay for themselves by the time that they take. */
const longBytes = 16_384;
/** What a project may take in one go before it has to rest. */
const burstMs = 1;

interface Share {
  readonly project: string;
  /** The virtual time at which its next work starts: grows by what its work takes. */
  start: number;
  readonly queue: Waiting[];
}

interface Waiting {
  readonly work: () => void;
  readonly bytes: number;
}

export function createWorkShares(options: WorkSharesOptions = {}): WorkShares {
  const { sliceMs = defaultSliceMs, now = performance.now.bind(performance) } = options;
  const { aloneSliceMs = options.sliceMs ?? defaultAloneSliceMs, busyPart = 1, mebibyteMs = 0 } = options;
  /** Of all that asked since the last turn of the loop in which nobody waited. */
  const shares = new Map<string, Share>();
  let virtualNow = 0;
  let waiting = 0;
  /** Of projects that took more than their part: until when that is made up for. */
  const rests = new Map<string, number>();
  let restTimer: NodeJS.Timeout | undefined;
  /** Whose work is running, since when. Settled by whoever comes next, at the latest at the end of the loop's turn. */
  let running: Share | undefined;
  let runningSince = 0;
  let runningBytes = 0;
  let sliceEnd: number | undefined;
  let lastProject = '';
  let sharedUntil = 0;

  function shareOf(project: string): Share {
    let share = shares.get(project);
    if (share === undefined) {
      share = { project, start: virtualNow, queue: [] };
      shares.set(project, share);
    }
    return share;
  }

  function settle(ms: number): void {
    if (running !== undefined) {
      const took = Math.min(ms - runningSince, longestMs);
      const paid = took + (runningBytes > longBytes ? (runningBytes / 1_048_576) * mebibyteMs : 0);
      running.start += paid;
      // What it takes while nobody else is there is owed to nobody.
      if (busyPart < 1 && runningSince < sharedUntil)
        rests.set(running.project, Math.max(rests.get(running.project) ?? 0, ms - took) + paid / busyPart);
    }
    running = undefined;
  }

  /** Whether the project has taken more than its part, while others work. */
  function isResting(project: string, ms: number): boolean {
    return ms < sharedUntil && (rests.get(project) ?? 0) > ms + burstMs;
  }

  /** Nobody who waits may go on: looks again when the first of them may. */
  function waitForRest(ms: number): void {
    const ends = [...shares.values()]
      .filter(({ queue }) => queue.length > 0)
      .map(({ project }) => rests.get(project) ?? 0);
    clearTimeout(restTimer);
    const look = (): void => {
      if (sliceEnd === undefined) nextSlice();
    };
    restTimer = setTimeout(look, Math.max(1, Math.min(...ends) - burstMs - ms));
  }

  function begin(share: Share, ms: number, bytes: number): void {
    virtualNow = Math.max(virtualNow, share.start);
    running = share;
    runningSince = ms;
    runningBytes = bytes;
  }

  /** Of those that wait and may go on, the one that has had the least. */
  function first(ms: number): Share | undefined {
    let found: Share | undefined;
    for (const share of shares.values()) {
      if (share.queue.length === 0 || isResting(share.project, ms)) continue;
      if (found === undefined || share.start < found.start) found = share;
    }
    return found;
  }

  function mayStart(share: Share, ms: number): boolean {
    if (isResting(share.project, ms)) return false;
    const next = waiting === 0 ? undefined : first(ms);
    // Nobody passes those of its own project, or those who had less.
    if (next === undefined) return share.queue.length === 0 && ms < (sliceEnd as number);
    return share.queue.length === 0 && share.start < next.start;
  }

  /** The work of this turn of the loop began. */
  function openSlice(ms: number): void {
    if (sliceEnd !== undefined) return;
    sliceEnd = ms + (ms < sharedUntil ? sliceMs : aloneSliceMs);
    setImmediate(nextSlice);
  }

  function nextSlice(): void {
    const ms = now();
    settle(ms);
    sliceEnd = undefined;
    if (waiting === 0) {
      // Whoever was busy while nobody waited owes nothing for it.
      shares.clear();
      for (const [project, end] of rests) if (end <= ms) rests.delete(project);
      return;
    }
    if (first(ms) === undefined) waitForRest(ms);
    else {
      openSlice(ms);
      serve(ms);
    }
  }

  /** Starts the next that waits. What it set going with promises runs, and is measured, before the one after it starts. */
  function serve(ms: number): void {
    const share = first(ms);
    if (share === undefined) return;
    waiting--;
    const { work, bytes } = share.queue.shift() as Waiting;
    begin(share, ms, bytes);
    queueMicrotask(afterMicrotasks);
    work();
  }

  /** A tick that is asked for by a microtask runs when no microtask is left. */
  function afterMicrotasks(): void {
    process.nextTick(serveMore);
  }

  function serveMore(): void {
    const ms = now();
    settle(ms);
    if (sliceEnd !== undefined && ms < sliceEnd) serve(ms);
  }

  function wait(share: Share, work: () => void, bytes: number): void {
    share.start = Math.max(share.start, virtualNow);
    share.queue.push({ work, bytes });
    waiting++;
  }

  /** Whether the project's work starts now. */
  function starts(project: string, share: Share, bytes: number): boolean {
    const ms = now();
    settle(ms);
    if (project !== lastProject) {
      lastProject = project;
      sharedUntil = ms + aloneAfterMs;
      if (sliceEnd !== undefined) sliceEnd = Math.min(sliceEnd, ms + sliceMs);
    }
    openSlice(ms);
    if (!mayStart(share, ms)) return false;
    begin(share, ms, bytes);
    return true;
  }

  return {
    get waiting() {
      return waiting;
    },
    get contended() {
      return now() < sharedUntil;
    },
    turn(project, bytes = 0) {
      const share = shareOf(project);
      if (starts(project, share, bytes)) return undefined;
      return new Promise((resolve) => wait(share, resolve, bytes));
    },
    run(project, work) {
      const share = shareOf(project);
      if (starts(project, share, 0)) work();
      else wait(share, work, 0);
    },
  };
}
