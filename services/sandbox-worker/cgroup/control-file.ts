import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';

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

export function makeCgroup(directory: string): void {
  try {
    mkdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
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
