import { isIP } from 'node:net';

/** A range of addresses, as in 10.0.0.0/8. */
export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** An address, or one with a prefix length; an IPv4 range is named by its first address. Undefined: neither. */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [, address = '', prefixText] = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0) return undefined;
  const bits = version === 4 ? 32 : 128;
  const prefix = prefixText === undefined ? bits : Number(prefixText);
  if (prefix > bits) return undefined;
  return version === 4
    ? { address: ipv4Of(numberOf(address) - (numberOf(address) % 2 ** (32 - prefix))), prefix, family: 'ipv4' }
    : { address, prefix, family: 'ipv6' };
}

/** An IPv4 address as a number, and back. */
export function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

export function ipv4Of(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
}

export function showRange({ address, prefix }: AddressRange): string {
  return `${address}/${prefix}`;
}

/**
 * The one spelling of an address. An IPv6 address that stands for an IPv4 one, mapped (::ffff:0:0/96) or translated on the
 * way (64:ff9b::/96), is that one. Undefined: no address.
 */
export function canonicalAddress(address: string): string | undefined {
  if (isIP(address) === 4) return address;
  const words = wordsOf(address);
  if (words === undefined) return undefined;
  const text = words.map((word) => word.toString(16)).join(':');
  if (!/^(0:0:0:0:0:ffff|64:ff9b:0:0:0:0):/.test(text)) return text;
  const [high = 0, low = 0] = words.slice(6);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** The eight words of an IPv6 address. */
function wordsOf(address: string): number[] | undefined {
  if (isIP(address) !== 6) return undefined;
  const plain = address.replace(/%.*$/, '').replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  });
  const [before = '', after] = plain.split('::');
  const parse = (text: string) => (text === '' ? [] : text.split(':').map((word) => Number.parseInt(word, 16)));
  const head = parse(before);
  const tail = after === undefined ? [] : parse(after);
  return [...head, ...Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}
