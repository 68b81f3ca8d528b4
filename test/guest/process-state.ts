import { readFileSync } from 'node:fs';

/** The letter of a process in /proc, such as T for stopped; empty for one that is not there, or goes while it is looked at. */
export function processState(pid: number | string | undefined): string {
  try {
    return /\) (\w) [^)]*$/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}
