import { execFile } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Logger } from '../../shared/log.ts';
import { type DiskRoom, readDiskRoom } from './host-room.ts';

const allocate = promisify(execFile);
/** Below this the services cannot be sure to write what they must. */
const shortBytes = 16 * 1_048_576;
/** A small file system gives up no more of itself than this. */
const largestShare = 1 / 20;

const fileOf = (directory: string): string => join(directory, 'reserve');

/** Gives up the reserve of a data directory if its disk is full. For a start, which needs to write a little. */
export function releaseIfFull(directory: string): void {
  const room = readDiskRoom(directory);
  if (room !== undefined && room.freeBytes < shortLimit(room)) rmSync(fileOf(directory), { force: true });
}

/** A file that takes room on the disk for as long as there is some, and none when the services need it. */
export interface DiskReserve {
  /** Gives the reserve up on a full disk, and makes it again once `calm`. */
  look(room: DiskRoom | undefined, calm: boolean): void;
}

export function createDiskReserve(directory: string, bytes: number, log: Logger): DiskReserve {
  const file = fileOf(directory);
  let held = existsSync(file);
  let making = false;
  const make = async (size: number): Promise<void> => {
    making = true;
    try {
      await allocate('fallocate', ['--length', String(size), file]);
      held = true;
    } catch (error) {
      rmSync(file, { force: true });
      log.debug({ err: error }, 'the reserve of the disk could not be made');
    } finally {
      making = false;
    }
  };
  return {
    look(room, calm) {
      if (room === undefined || bytes === 0) return;
      const size = Math.floor(Math.min(bytes, room.totalBytes * largestShare));
      if (held && room.freeBytes < shortLimit(room)) {
        rmSync(file, { force: true });
        held = false;
        log.error({ bytes: size, free: room.freeBytes }, 'the disk is full: the reserve was given up');
      } else if (!held && !making && calm && room.freeBytes > 4 * size + shortLimit(room)) {
        make(size).catch(() => {});
      }
    },
  };
}

function shortLimit({ totalBytes }: DiskRoom): number {
  return Math.min(shortBytes, totalBytes * largestShare);
}
