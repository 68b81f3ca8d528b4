import { isIPv6 } from 'node:net';

/**
 * What connections are counted by: an IPv4 address, or the first half of an IPv6 address, all of which one machine usually
 * has.
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const bare = address.split('%', 1)[0] ?? '';
  if (!isIPv6(bare)) return address;
  const [head = '', tail] = bare.split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  // An embedded IPv4 address stands for two groups.
  const missing = 8 - first.length - last.length - (bare.includes('.') ? 1 : 0);
  const groups = tail === undefined ? first : [...first, ...Array<string>(Math.max(0, missing)).fill('0'), ...last];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}
