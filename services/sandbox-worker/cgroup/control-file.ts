import { closeSync, mkdirSync, openSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The text of a control file; empty where the cgroup or the file is gone. */
export function readControl(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

/** false where the cgroup or the process is gone, or the kernel refused. */
export function writeControl(file: string, value: string): boolean {
  try {
    // r+: control files exist already; nothing must be made where a cgroup is not.
    writeFileSync(file, value, { flag: 'r+' });
    return true;
  } catch {
    return false;
  }
}

/** The number after a name, as in `oom_kill 1`; 0 where it is not said. */
export function readField(file: string, name: string): number {
  const found = readControl(file)
    .split('\n')
    .find((line) => line.startsWith(`${name} `));
  return found === undefined ? 0 : Number(found.slice(name.length + 1)) || 0;
}

export function readNumber(file: string): number {
  return Number(readControl(file).trim()) || 0;
}

/** The pids in a cgroup. 0 stands for a process that this pid namespace cannot see, and would signal ourselves. */
export function readPids(file: string): number[] {
  return readControl(file)
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 1);
}

/** false where the cgroup above is gone, or the kernel refused. */
export function makeCgroup(directory: string): boolean {
  try {
    mkdirSync(directory);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EEXIST';
  }
}

/** false while the cgroup holds processes. */
export function removeCgroup(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

type OpenOne = (flags: 'r' | 'r+', ...path: string[]) => number;

/** Opens the control files that `which` names; undefined, with none left open, where one of them is gone. */
export function openAll<Files>(which: (one: OpenOne) => Files): Files | undefined {
  const opened: number[] = [];
  try {
    return which((flags, ...path) => {
      const fd = openSync(join(...path), flags);
      opened.push(fd);
      return fd;
    });
  } catch {
    opened.forEach(closeSync);
    return undefined;
  }
}
