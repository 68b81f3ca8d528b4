import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { normaliseHost } from '../../../shared/host-pattern.ts';

/** The addresses of a host. Rejects, or resolves with none, where there are none. */
export type ResolveName = (host: string) => Promise<readonly string[]>;

const timeoutMs = 3_000;
const tries = 2;

/**
 * Files in the form of /etc/hosts, the first that knows the name, then DNS. Asked without getaddrinfo, whose few threads
 * are the whole worker's: a name that answers slowly must cost nobody else.
 */
export function createNameResolver(files: readonly string[]): ResolveName {
  const resolver = new Resolver({ timeout: timeoutMs, tries });
  return async (host) => {
    for (const file of files) {
      const found = addressesIn(file, host);
      if (found.length > 0) return found;
    }
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    if (four.status === 'rejected' && six.status === 'rejected') throw four.reason;
    return [four, six].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  };
}

function addressesIn(file: string, host: string): string[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    return [];
  }
  return text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((name) => normaliseHost(name) === host) ? [address] : [];
  });
}
