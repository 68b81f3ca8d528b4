import { Resolver } from 'node:dns/promises';
import { createHostsFile } from './hosts-file.ts';

/** The addresses of a host. Rejects, or resolves with none, where there are none. */
export type ResolveName = (host: string) => Promise<readonly string[]>;

const timeoutMs = 3_000;
const tries = 2;

/**
 * Files in the form of /etc/hosts, the first that knows the name, then DNS. Asked without getaddrinfo, whose few threads
 * are the whole worker's: a name that answers slowly must cost nobody else.
 */
export function createNameResolver(paths: readonly string[]): ResolveName {
  const files = paths.map((path) => createHostsFile(path));
  const resolver = new Resolver({ timeout: timeoutMs, tries });
  return async (host) => {
    for (const file of files) {
      const found = file.addressesOf(host);
      if (found.length > 0) return found;
    }
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    if (four.status === 'rejected' && six.status === 'rejected') throw four.reason;
    return [four, six].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  };
}
