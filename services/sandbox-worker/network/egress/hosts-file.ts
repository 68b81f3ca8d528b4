import { readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { normaliseHost } from '../../../shared/host-pattern.ts';

/** A file in the form of /etc/hosts. */
export interface HostsFile {
  /** The addresses of a normalised host, in the order of the file. */
  addressesOf(host: string): readonly string[];
}

/** How long the file is not looked at again: every lookup would stop the event loop for a read. */
const lookAgainMs = 1_000;

type Addresses = ReadonlyMap<string, readonly string[]>;

/** Reads the file when it has changed. A file that cannot be read knows no name. */
export function createHostsFile(path: string, now: () => number = performance.now.bind(performance)): HostsFile {
  let addresses: Addresses = new Map();
  let version: string | undefined;
  let lookAt = Number.NEGATIVE_INFINITY;

  function look(): void {
    const ms = now();
    if (ms < lookAt) return;
    lookAt = ms + lookAgainMs;
    try {
      const { mtimeMs, size, ino } = statSync(path);
      const found = `${mtimeMs} ${size} ${ino}`;
      if (found === version) return;
      addresses = addressesIn(readFileSync(path, 'utf8'));
      version = found;
    } catch {
      addresses = new Map();
      version = undefined;
    }
  }

  return {
    addressesOf(host) {
      look();
      return addresses.get(host) ?? [];
    },
  };
}

function addressesIn(text: string): Addresses {
  const found = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const host of new Set(names.map(normaliseHost))) {
      if (host !== undefined) found.set(host, [...(found.get(host) ?? []), address]);
    }
  }
  return found;
}
