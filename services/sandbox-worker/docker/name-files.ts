import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The host's name inside. */
export const sandboxName = 'sandbox';

/** Where each file of the slot directory appears, and what it says as long as there is no network. */
const files = {
  hostname: { target: '/etc/hostname', text: `${sandboxName}\n` },
  // One address for `localhost`: not every program tries a second.
  hosts: {
    target: '/etc/hosts',
    text: `127.0.0.1\tlocalhost ${sandboxName}\n::1\tip6-localhost ip6-loopback\n`,
  },
  'resolv.conf': { target: '/etc/resolv.conf', text: '' },
} as const;

/**
 * The files by which programs know names. An engine writes them when it gives a container its network; ours are not given one
 * by the engine, which would take half of the time of a start, for a program that it runs for every network namespace.
 */
export function writeNameFiles(slotDirectory: string): void {
  for (const [name, { text }] of Object.entries(files)) {
    writeFileSync(join(slotDirectory, name), text, { mode: 0o644 });
  }
}

export function nameFileMounts(slotDirectory: string): { source: string; target: string }[] {
  return Object.entries(files).map(([name, { target }]) => ({ source: join(slotDirectory, name), target }));
}

/** The file that is the container's /etc/resolv.conf. It is to be written in place: another would not be the one that is mounted. */
export function resolverFile(slotDirectory: string): string {
  return join(slotDirectory, 'resolv.conf');
}
