import { readFileSync } from 'node:fs';

export interface Mount {
  readonly mountPoint: string;
  readonly source: string;
  readonly fileSystem: string;
  /** Of the file system, with commas between them. */
  readonly options: string;
}

/** What is mounted on this machine, the latest last. */
export function readMounts(table = readFileSync('/proc/self/mountinfo', 'utf8')): Mount[] {
  const mounts: Mount[] = [];
  for (const line of table.split('\n')) {
    const [front, back] = line.split(' - ');
    const mountPoint = front?.split(' ')[4];
    const [fileSystem, source, options = ''] = back?.split(' ') ?? [];
    if (mountPoint === undefined || fileSystem === undefined || source === undefined) continue;
    mounts.push({ mountPoint: decodeOctal(mountPoint), source: decodeOctal(source), fileSystem, options });
  }
  return mounts;
}

export function findMount(mountPoint: string): Mount | undefined {
  return readMounts().findLast((mount) => mount.mountPoint === mountPoint);
}

/** Space, tab, newline and backslash are written as \ooo in the table. */
function decodeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
