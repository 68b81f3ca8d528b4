import { readFileSync, statfsSync } from 'node:fs';
import { totalmem } from 'node:os';

/** What a file system has, and what it has left for this process. */
export interface DiskRoom {
  readonly path: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Both 0 where the file system makes inodes as they are needed. */
  readonly totalInodes: number;
  readonly freeInodes: number;
}

/** What a host has left beside its disks. */
export interface HostRoom {
  readonly totalMemoryBytes: number;
  readonly freeMemoryBytes: number;
  /** Processes and threads that it can have, and that there are. */
  readonly totalPids: number;
  readonly usedPids: number;
}

/** Undefined where the path is not to be seen from here. */
export function readDiskRoom(path: string): DiskRoom | undefined {
  try {
    const { bsize, blocks, bavail, files, ffree } = statfsSync(path);
    return {
      path,
      totalBytes: blocks * bsize,
      freeBytes: bavail * bsize,
      totalInodes: files,
      freeInodes: ffree,
    };
  } catch {
    return undefined;
  }
}

export function readHostRoom(): HostRoom {
  const totalMemoryBytes = totalmem();
  const availableKib = /^MemAvailable:\s+(\d+) kB$/m.exec(readProc('meminfo'))?.[1];
  const totalPids = Math.min(numberIn('sys/kernel/pid_max'), numberIn('sys/kernel/threads-max'));
  // The fourth field of /proc/loadavg: running and all processes and threads of the host.
  const usedPids = Number(/ \d+\/(\d+) /.exec(readProc('loadavg'))?.[1] ?? 0);
  return {
    totalMemoryBytes,
    usedPids,
    freeMemoryBytes: availableKib === undefined ? totalMemoryBytes : Number(availableKib) * 1_024,
    totalPids,
  };
}

function numberIn(path: string): number {
  const text = readProc(path);
  return text === '' ? Number.POSITIVE_INFINITY : Number(text);
}

function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return '';
  }
}
