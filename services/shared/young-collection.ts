import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** So much may pass between two collections. */
const everyBytes = 8 * 1_048_576;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;

let passed = 0;

/**
 * Counts bytes that were passed on, and collects the young generation now and then. Every read from a socket leaves 64 KiB
 * outside of the heap and next to nothing in it, so the collector sees no reason for a cheap collection and, a little
 * later, one for a full one: twenty for each gibibyte, which took more CPU time than passing it on.
 */
export function countPassed(bytes: number): void {
  passed += bytes;
  if (passed < everyBytes) return;
  passed = 0;
  collect({ type: 'minor' });
}
