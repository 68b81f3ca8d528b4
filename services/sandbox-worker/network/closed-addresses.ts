import { BlockList, isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type AddressRange, canonicalAddress, parseAddressRange } from './address-range.ts';

/**
 * No session reaches these, whatever its network: loopback, link-local with the metadata services there, metadata services
 * elsewhere (Alibaba, Azure, Oracle, AWS and Google on IPv6), what is no host's address, and ways to wrap an IPv4 address.
 */
export const alwaysClosed: readonly AddressRange[] = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/32',
  '2002::/16',
  'fd00:ec2::/32',
  'fd20:ce::/32',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
].map((text) => {
  const range = parseAddressRange(text);
  if (range === undefined) throw new TypeError(text);
  return range;
});

/** Which addresses no session may reach. */
export interface ClosedAddresses {
  /** Why the address is closed, or undefined where it is open. */
  why(address: string): string | undefined;
}

export interface ClosedAddressesDeps {
  /** What the operator blocks. */
  readonly blocked: readonly AddressRange[];
  /** Where the sessions' own addresses are. */
  readonly sessions: AddressRange;
  /** The host's addresses at this moment. */
  readonly own?: () => readonly string[];
}

export function createClosedAddresses({
  blocked,
  sessions,
  own = hostAddresses,
}: ClosedAddressesDeps): ClosedAddresses {
  const always = listOf([...alwaysClosed, sessions]);
  const operator = listOf(blocked);
  return {
    why(address) {
      const plain = canonicalAddress(address);
      if (plain === undefined) return 'is no address';
      const family = isIP(plain) === 4 ? 'ipv4' : 'ipv6';
      if (always.check(plain, family)) return 'is never reachable from a session';
      if (own().some((mine) => canonicalAddress(mine) === plain))
        return "is one of the host's own, which no session reaches";
      if (operator.check(plain, family)) return 'is in a range that the operator blocks (ASSAY_BLOCKED_NETWORKS)';
      return undefined;
    },
  };
}

/** Every address of this machine. */
export function hostAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((found) => (found ?? []).map(({ address }) => address));
}

function listOf(ranges: readonly AddressRange[]): BlockList {
  const list = new BlockList();
  for (const { address, prefix, family } of ranges) list.addSubnet(address, prefix, family);
  return list;
}
