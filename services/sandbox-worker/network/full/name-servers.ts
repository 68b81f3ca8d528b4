import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';

/** Where a stub resolver on the loopback keeps the servers that it asks itself. */
const files = ['/etc/resolv.conf', '/run/systemd/resolve/resolv.conf'];

/** The host's own name servers, but for those that only the host can reach. */
export function hostNameServers(read: (file: string) => string = (file) => readFileSync(file, 'utf8')): string[] {
  for (const file of files) {
    try {
      const named = [...read(file).matchAll(/^nameserver\s+(\S+)/gm)].map(([, server = '']) => server);
      const usable = named.filter((server) => isIP(server) === 4 && !server.startsWith('127.'));
      if (usable.length > 0) return usable;
    } catch {
      // The next one may be there.
    }
  }
  return [];
}

/** A resolver's configuration. */
export function resolverConfig(servers: readonly string[]): string {
  return servers.map((server) => `nameserver ${server}\n`).join('');
}
