import type { Logger } from '../../shared/log.ts';
import { guestRingBytes } from '../guest/frame.ts';

/** What is left of a running execution's streams: the beginning, and what a guest may send again after a crash. */
export const runningKeep = { head: 262_144, tail: guestRingBytes } as const;
const nothing = { head: 0, tail: 0 } as const;
/** A running execution is worth trimming from here: copying what is left must pay. */
const worthBytes = 4 * (runningKeep.head + runningKeep.tail);

/** How many ended executions of a project are tried in vain before the others are left for later. */
const mostFailures = 16;

/** How much is given up at a time when the disk is full. */
const fullBytes = 64 * 1_048_576;
/**
 * How long a full disk is waited for before anything is given up. Meanwhile nothing is lost: a guest keeps what could not be stored,
 * and its programs wait when it has no room left.
 */
const defaultPatienceMs = 30_000;
/** A disk that nobody found full for so long had room. Guests try again every second. */
const hadRoomMs = 10_000;

/** An execution whose output takes space. */
export interface Holding {
  /** Whose it is. */
  readonly project: string;
  readonly heldBytes: number;
  /** When it ended, for those that have. */
  readonly endedMs: number;
  /** Gives up all but this much of each stream. */
  trim(keep: { readonly head: number; readonly tail: number }): void;
}

/**
 * The disk that all spools of a worker share. Bytes are counted as they are written; when they are too many, the project that
 * holds most loses output: of the execution that ended longest ago first, and of running ones only when it has nothing else.
 */
export interface SpoolBudget {
  readonly limitBytes: number;
  readonly usedBytes: number;
  /** How much was given up so far, of executions that had ended and of running ones. */
  readonly droppedBytes: { readonly settled: number; readonly running: number };
  /** A spool takes more of the disk, or less. */
  grew(holding: Holding, bytes: number): void;
  /**
   * The disk has no space left, whatever was counted: gives up kept output once that has been so for a while, and returns whether
   * there was any.
   */
  full(): boolean;
  /** Nothing more will be written for it. */
  settled(holding: Holding): void;
  /** Its files are no longer this worker's to count. */
  released(holding: Holding): void;
}

/** What one project holds. */
interface Share {
  bytes: number;
  readonly running: Set<Holding>;
  /** In the order of their ends, unless `disordered`. */
  settled: Set<Holding>;
  disordered: boolean;
  lastEndedMs: number;
}

export interface SpoolBudgetOptions {
  /** How long a full disk is waited for. */
  readonly patienceMs?: number;
  readonly now?: () => number;
}

export function createSpoolBudget(limitBytes: number, log: Logger, options: SpoolBudgetOptions = {}): SpoolBudget {
  const { patienceMs = defaultPatienceMs, now = () => performance.now() } = options;
  /** Space for the next commands, so that not each of them has to look for some. */
  const slackBytes = Math.floor(limitBytes / 32);
  const shares = new Map<string, Share>();
  let used = 0;
  /** Nothing was found below this; looking again before would find nothing again. */
  let hopelessBelow = 0;
  let looking = false;
  let givingUp = false;
  /** Since when, and when last, the disk was found full. */
  let fullSince = 0;
  let fullAt = Number.NEGATIVE_INFINITY;
  const dropped = { settled: 0, running: 0 };

  function shareOf({ project }: Holding): Share {
    const found = shares.get(project);
    if (found !== undefined) return found;
    const share = { bytes: 0, running: new Set<Holding>(), settled: new Set<Holding>() };
    const empty: Share = { ...share, disordered: false, lastEndedMs: 0 };
    shares.set(project, empty);
    return empty;
  }

  function count(holding: Holding, bytes: number): Share {
    const share = shareOf(holding);
    used += bytes;
    share.bytes += bytes;
    return share;
  }

  /** Off the path of the bytes: what comes in the meantime is one turn of the loop. */
  function lookSoon(): void {
    if (!looking) setImmediate(look);
    looking = true;
  }

  function look(): void {
    looking = false;
    makeRoom(limitBytes - slackBytes, limitBytes);
    if (used <= limitBytes) return;
    hopelessBelow = used + slackBytes;
    log.warn({ used, limit: limitBytes }, 'running executions hold more output than the spools may take');
  }

  /** Takes from the project that holds most, as often as needed. Running executions are trimmed only above `runningBytes`. */
  function makeRoom(untilBytes: number, runningBytes: number): void {
    const failed = new Map<Holding, Share>();
    takeFromLargest(untilBytes, runningBytes, failed);
    // What could not be recorded on a full disk can be later.
    for (const [holding, share] of failed) share.settled.add(holding);
  }

  function takeFromLargest(untilBytes: number, runningBytes: number, failed: Map<Holding, Share>): void {
    const spent = new Set<Share>();
    const tried = new Set<Holding>();
    const failures = new Map<Share, number>();
    while (used > untilBytes) {
      const share = largestShare(spent);
      if (share === undefined) return;
      const failuresHere = failures.get(share) ?? 0;
      const oldest = failuresHere < mostFailures ? takeOldest(share) : undefined;
      if (oldest !== undefined) {
        dropped.settled += giveUp(oldest, nothing);
        if (oldest.heldBytes === 0) continue;
        failed.set(oldest, share);
        failures.set(share, failuresHere + 1);
        continue;
      }
      if (used <= runningBytes) return;
      const largest = largestRunning(share, tried);
      if (largest === undefined) spent.add(share);
      else dropped.running += giveUp(largest, runningKeep);
    }
  }

  function largestShare(spent: ReadonlySet<Share>): Share | undefined {
    let most: Share | undefined;
    for (const share of shares.values()) {
      if (share.bytes > (most?.bytes ?? 0) && !spent.has(share)) most = share;
    }
    return most;
  }

  function takeOldest(share: Share): Holding | undefined {
    if (share.disordered) share.settled = new Set([...share.settled].sort((a, b) => a.endedMs - b.endedMs));
    share.disordered = false;
    const [oldest] = share.settled;
    if (oldest !== undefined) share.settled.delete(oldest);
    return oldest;
  }

  /** Each one once: one that cannot be trimmed must not be looked at for ever. */
  function largestRunning({ running }: Share, tried: Set<Holding>): Holding | undefined {
    let largest: Holding | undefined;
    for (const holding of running) {
      const worth = holding.heldBytes >= worthBytes && !tried.has(holding);
      if (worth && holding.heldBytes > (largest?.heldBytes ?? 0)) largest = holding;
    }
    if (largest !== undefined) tried.add(largest);
    return largest;
  }

  function giveUp(holding: Holding, keep: Parameters<Holding['trim']>[0]): number {
    const before = holding.heldBytes;
    givingUp = true;
    try {
      holding.trim(keep);
    } catch (error) {
      log.error({ err: error }, 'kept output could not be given up');
    } finally {
      givingUp = false;
    }
    return before - holding.heldBytes;
  }

  return {
    limitBytes,
    get usedBytes() {
      return used;
    },
    get droppedBytes() {
      return { ...dropped };
    },
    grew(holding, bytes) {
      const share = count(holding, bytes);
      if (bytes < 0) return;
      share.running.add(holding);
      if (used > limitBytes && used > hopelessBelow) lookSoon();
    },
    full() {
      // What is given up must be recorded, on the same disk.
      if (givingUp) return false;
      const ms = now();
      if (ms - fullAt > hadRoomMs) fullSince = ms;
      fullAt = ms;
      if (ms - fullSince < patienceMs) return false;
      const before = used;
      const until = before - Math.min(slackBytes, fullBytes);
      makeRoom(until, until);
      log.warn({ freed: before - used, used }, 'the disk is full; kept output was given up');
      return used < before;
    },
    settled(holding) {
      const share = shareOf(holding);
      if (!share.running.delete(holding) || holding.heldBytes === 0) return;
      if (holding.endedMs < share.lastEndedMs) share.disordered = true;
      share.lastEndedMs = Math.max(share.lastEndedMs, holding.endedMs);
      share.settled.add(holding);
      hopelessBelow = 0;
      if (used > limitBytes) lookSoon();
    },
    released(holding) {
      const share = count(holding, -holding.heldBytes);
      share.running.delete(holding);
      share.settled.delete(holding);
      if (share.running.size + share.settled.size === 0 && share.bytes === 0) shares.delete(holding.project);
      hopelessBelow = 0;
    },
  };
}
