import { chmodSync, copyFileSync } from 'node:fs';

/**
 * Copies a program into a slot. A hard link would be one inode in all containers: a lock on it, its link count and its change time
 * would carry a signal from one container to another.
 */
export function placeProgram(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, 0o555);
}
