import type { Logger } from '../../shared/log.ts';
import { guestRingBytes } from '../guest/frame.ts';

/** What is left of a running execution's streams: the beginning, and what a guest may send again after a crash. */
export const runningKeep = { head: 262_144, tail: guestRingBytes } as const;
const nothing = { head: 0, tail: 0 } as const;
/** A running execution is worth trimming from here: copying what is left must pay. */
const worthBytes = 4 * (runningKeep.head + runningKeep.tail);

/** How much is given up at a time when the disk is full. */
const fullBytes = 64 * 1_048_576;

/** An execution whose output takes space. */
export interface Holding {
  readonly heldBytes: number;
  /** When it ended, for those that have. */
  readonly endedMs: number;
  /** Gives up all but this much of each stream. */
  trim(keep: { readonly head: number; readonly tail: number }): void;
}

/**
 * The disk that all spools of a worker share. Bytes are counted as they are written; when they are too many, the output
 * of the execution that ended longest ago goes first, and that of running ones only when nothing else is left.
 */
export interface SpoolBudget {
  readonly limitBytes: number;
  readonly usedBytes: number;
  /** How much was given up so far, of executions that had ended and of running ones. */
  readonly droppedBytes: { readonly settled: number; readonly running: number };
  /** A spool takes more of the disk, or less. */
  grew(holding: Holding, bytes: number): void;
  /** The disk has no space left, whatever was counted: gives up kept output at once, and returns whether there was any. */
  full(): boolean;
  /** Nothing more will be written for it. */
  settled(holding: Holding): void;
  /** Its files are no longer this worker's to count. */
  released(holding: Holding): void;
}

export function createSpoolBudget(limitBytes: number, log: Logger): SpoolBudget {
  /** Space for the next commands, so that not each of them has to look for some. */
  const slackBytes = Math.floor(limitBytes / 32);
  const running = new Set<Holding>();
  /** In the order of their ends, unless `disordered`. */
  let settled = new Set<Holding>();
  let disordered = false;
  let lastEndedMs = 0;
  let used = 0;
  /** Nothing was found below this; looking again before would find nothing again. */
  let hopelessBelow = 0;
  let looking = false;
  let givingUp = false;
  const dropped = { settled: 0, running: 0 };

  /** Off the path of the bytes: what comes in the meantime is one turn of the loop. */
  function lookSoon(): void {
    if (!looking) setImmediate(look);
    looking = true;
  }

  function look(): void {
    looking = false;
    dropSettled(limitBytes - slackBytes);
    if (used > limitBytes) trimRunning(limitBytes);
  }

  /** Drops what ended longest ago until no more than this is used. */
  function dropSettled(untilBytes: number): void {
    if (disordered) settled = new Set([...settled].sort((a, b) => a.endedMs - b.endedMs));
    disordered = false;
    for (const holding of settled) {
      if (used <= untilBytes) break;
      settled.delete(holding);
      dropped.settled += giveUp(holding, nothing);
    }
  }

  function trimRunning(untilBytes: number): void {
    const largest = [...running].sort((a, b) => b.heldBytes - a.heldBytes);
    for (const holding of largest) {
      if (used <= untilBytes || holding.heldBytes < worthBytes) break;
      dropped.running += giveUp(holding, runningKeep);
    }
    if (used <= limitBytes) return;
    hopelessBelow = used + slackBytes;
    log.warn({ used, limit: limitBytes }, 'running executions hold more output than the spools may take');
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
      used += bytes;
      if (bytes < 0) return;
      running.add(holding);
      if (used > limitBytes && used > hopelessBelow) lookSoon();
    },
    full() {
      // What is given up must be recorded, on the same disk.
      if (givingUp) return false;
      const before = used;
      const until = before - Math.min(slackBytes, fullBytes);
      dropSettled(until);
      if (used > until) trimRunning(until);
      log.warn({ freed: before - used, used }, 'the disk is full; kept output was given up');
      return used < before;
    },
    settled(holding) {
      if (!running.delete(holding) || holding.heldBytes === 0) return;
      if (holding.endedMs < lastEndedMs) disordered = true;
      lastEndedMs = Math.max(lastEndedMs, holding.endedMs);
      settled.add(holding);
      hopelessBelow = 0;
      if (used > limitBytes) lookSoon();
    },
    released(holding) {
      used -= holding.heldBytes;
      running.delete(holding);
      settled.delete(holding);
      hopelessBelow = 0;
    },
  };
}
