import { byteSizes } from '../../shared/byte-size.ts';
import type { Logger } from '../../shared/log.ts';
import type { DiskRoom } from './host-room.ts';

/** No floor is above this share of a file system: a small one would be under pressure from the beginning. */
const largestShare = 1 / 20;
/** Room is back when there is this many times the floor: less would be gone at once. */
const backFactor = 1.25;
/** From here on it may soon be short. */
const nearFactor = 2;

export interface DiskPressureDeps {
  /** The file systems that sessions, builds, logs and the broker write to. */
  readonly rooms: () => readonly DiskRoom[];
  readonly floorBytes: number;
  readonly floorInodes: number;
  readonly changed: () => void;
  readonly log: Logger;
}

/** Whether a disk of this host is so full that the service itself may soon be unable to write. */
export interface DiskPressure {
  /** Why no new work is taken, in a sentence. Undefined: there is room. */
  readonly reason: string | undefined;
  /** Whether it may soon come to that. */
  readonly near: boolean;
  /** As it was when somebody looked last. */
  readonly rooms: readonly DiskRoom[];
  look(): void;
}

export function createDiskPressure(deps: DiskPressureDeps): DiskPressure {
  let rooms: readonly DiskRoom[] = [];
  let reason: string | undefined;
  let near = false;

  /** What is below `factor` times its floor. */
  const shortage = (factor: number): string | undefined => {
    for (const { path, totalBytes, freeBytes, totalInodes, freeInodes } of rooms) {
      const bytes = Math.min(deps.floorBytes, totalBytes * largestShare);
      const inodes = Math.min(deps.floorInodes, totalInodes * largestShare);
      if (freeBytes < bytes * factor) return described(path, ...byteSizes(freeBytes, Math.floor(bytes)));
      if (freeInodes < inodes * factor) return described(path, `${freeInodes} inodes`, String(Math.floor(inodes)));
    }
    return undefined;
  };

  return {
    get reason() {
      return reason;
    },
    get near() {
      return near;
    },
    get rooms() {
      return rooms;
    },
    look() {
      const before = reason;
      rooms = deps.rooms();
      near = shortage(nearFactor) !== undefined;
      // The sentence of the first look stays: it is told in records, which need not be written again for every byte.
      reason = shortage(before === undefined ? 1 : backFactor) === undefined ? undefined : (before ?? shortage(1));
      if ((before === undefined) === (reason === undefined)) return;
      if (reason === undefined) deps.log.info('the disk has room again: taking new work');
      else deps.log.error({ reason }, 'the disk is nearly full: new work is refused, sessions that write are paused');
      deps.changed();
    },
  };
}

function described(path: string, free = '', floor = ''): string {
  const found = `the disk of the worker's host is nearly full: ${free} are free at ${path}`;
  return `${found}, and the worker keeps ${floor} for itself; close sessions, or free some, and try again`;
}
