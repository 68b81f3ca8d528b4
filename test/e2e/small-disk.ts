import { execFileSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const mebibyte = 1_048_576;

/** A disk of its own takes root. */
export const mayMount = process.getuid?.() === 0;

/** Mounts an ext4 file system of so many MiB at the directory, small enough to fill. */
export function mountSmallDisk(directory: string, mebibytes: number): void {
  const image = `${directory}.ext4`;
  execFileSync('truncate', ['--size', `${mebibytes}M`, image]);
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  execFileSync('mount', ['-o', 'loop', image, directory]);
  rmSync(join(directory, 'lost+found'), { recursive: true });
}

export function unmountSmallDisk(directory: string): void {
  execFileSync('umount', [directory]);
  rmSync(`${directory}.ext4`);
}

/** Takes all that is left, to the last block. */
export function fillDisk(file: string): void {
  const descriptor = openSync(file, 'a');
  try {
    for (let block = mebibyte; block >= 1_024; block /= 4) {
      try {
        for (;;) writeSync(descriptor, Buffer.alloc(block));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
  } finally {
    closeSync(descriptor);
  }
}
