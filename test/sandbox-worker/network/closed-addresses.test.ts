import { expect, test } from 'vitest';
import { type AddressRange, parseAddressRange } from '../../../services/sandbox-worker/network/address-range.ts';
import { createClosedAddresses, hostAddresses } from '../../../services/sandbox-worker/network/closed-addresses.ts';

const range = (text: string): AddressRange => {
  const found = parseAddressRange(text);
  if (found === undefined) throw new Error(`no range: ${text}`);
  return found;
};
const closed = createClosedAddresses({
  blocked: [range('10.0.0.0/8'), range('fc00::/7')],
  sessions: range('198.19.0.0/16'),
  own: () => ['192.0.2.7', '2001:db8::7'],
});

test.each([
  '127.0.0.1',
  '127.8.8.8',
  '0.0.0.0',
  '169.254.169.254',
  '169.254.170.2',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '224.0.0.1',
  '255.255.255.255',
  '198.19.3.4',
  '192.0.2.7',
  '10.1.2.3',
  '::1',
  '::',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '0:0:0:0:0:FFFF:a9fe:a9fe',
  '::127.0.0.1',
  '64:ff9b::169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  '2002:7f00:1::',
  'fe80::1',
  'fe80::1%eth0',
  'fd00:ec2::254',
  'fd12::1',
  'ff02::1',
  '2001:db8::7',
  '2001:0DB8:0::0007',
  'example.org',
  '',
])('%s is closed', (address) => expect(closed.why(address)).toBeTypeOf('string'));

test.each(['192.0.2.8', '203.0.113.80', '8.8.8.8', '2001:db8::8', '64:ff9b::8.8.8.8', '::ffff:8.8.8.8'])(
  '%s is open',
  (address) => expect(closed.why(address)).toBeUndefined(),
);

test('every address of this machine is closed', () => {
  const here = createClosedAddresses({ blocked: [], sessions: range('198.19.0.0/16') });
  expect(hostAddresses().filter((address) => here.why(address) === undefined)).toEqual([]);
});

test.each(['10.0.0.0/33', '::/129', '10.0.0/8', 'example.org', '10.0.0.0/', ''])('%j is no range', (text) =>
  expect(parseAddressRange(text)).toBeUndefined(),
);
