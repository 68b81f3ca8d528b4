import { randomInt } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { runProgram } from '../../program/program.ts';
import { type AddressRange, ipv4Of, numberOf, showRange } from '../address-range.ts';
import { hostAddresses } from '../closed-addresses.ts';
import { linkName, ruleMark } from './packet-rules.ts';

export interface SessionLinkSpec {
  readonly installation: string;
  readonly sessions: AddressRange;
  /** Closed to every session, and blocked by the operator. */
  readonly unreachable: readonly AddressRange[];
  readonly nameServers: readonly string[];
}

const attempts = 20;

/**
 * Joins the sandbox of this process to the host by a pair of interfaces of its own: no bridge, so that no session is a
 * neighbour of another. The pair goes when the sandbox goes. What is closed is unroutable in the sandbox already, so that a
 * program is told at once; the packet rules on the host are what it cannot get around.
 */
export async function linkSession(spec: SessionLinkSpec, pid: number): Promise<void> {
  await unlinkSession(pid);
  const used = new Set(hostAddresses());
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const pair = freePair(spec.sessions, used);
    const name = linkName(spec.installation, pair.index);
    try {
      await runProgram('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', '-batch', '-'], insideBatch(spec, pair, name));
    } catch (error) {
      if (!/File exists/.test((error as Error).message) || attempt + 1 === attempts) throw error;
      continue;
    }
    // The host has no IPv6 address on it, not even the one that the kernel would make.
    disableIpv6(name);
    await runProgram('ip', ['-batch', '-'], outsideBatch(spec, pair, name));
    if (hostAddresses().filter((address) => address === pair.host).length === 1) return;
    // Another installation chose the same pair in the same moment: who sees it, goes.
    await runProgram('ip', ['link', 'del', name]);
    used.add(pair.host);
  }
  throw new Error(`no free pair of addresses in ${showRange(spec.sessions)}`);
}

/** Takes away what a worker that died on the way has left. */
async function unlinkSession(pid: number): Promise<void> {
  if (!/^\s*eth0:/m.test(readFileSync(`/proc/${pid}/net/dev`, 'utf8'))) return;
  await runProgram('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', 'link', 'del', 'eth0']);
}

interface AddressPair {
  readonly index: number;
  readonly host: string;
  readonly session: string;
}

function freePair({ address, prefix }: AddressRange, used: ReadonlySet<string>): AddressPair {
  const pairs = 2 ** (32 - prefix) / 2;
  const base = numberOf(address);
  const start = randomInt(pairs);
  for (let step = 0; step < pairs; step += 1) {
    const index = (start + step) % pairs;
    const host = ipv4Of(base + 2 * index);
    if (index > 0 && !used.has(host)) return { index, host, session: ipv4Of(base + 2 * index + 1) };
  }
  throw new Error(`all of ${address}/${prefix} is in use`);
}

/** The sandbox's side: the address, the way out, and what there is no way to. */
function insideBatch(spec: SessionLinkSpec, pair: AddressPair, name: string): string {
  const four = spec.unreachable.filter(({ family }) => family === 'ipv4').map(showRange);
  const own = hostAddresses().filter((address) => address.includes('.') && !address.startsWith('127.'));
  // Loopback stays the sandbox's own, and 0.0.0.0/8 and multicast are no routes.
  const ranges = four.filter((range) => !/^(0|127|224|240)\./.test(range));
  const prohibited = new Set([...ranges, showRange(spec.sessions), `${pair.host}/32`, ...own.map((it) => `${it}/32`)]);
  return [
    `link add eth0 type veth peer name ${name} netns ${process.pid}`,
    `addr add ${pair.session}/31 dev eth0`,
    'link set eth0 up',
    `route add default via ${pair.host} dev eth0 onlink`,
    ...[...prohibited].map((range) => `route replace prohibit ${range}`),
    ...spec.nameServers.map((server) => `route replace ${server}/32 via ${pair.host} dev eth0 onlink`),
    '',
  ].join('\n');
}

function outsideBatch({ installation }: SessionLinkSpec, pair: AddressPair, name: string): string {
  return [
    `link set dev ${name} alias ${ruleMark(installation)}`,
    `addr add ${pair.host}/31 dev ${name}`,
    `link set ${name} up`,
    '',
  ].join('\n');
}

function disableIpv6(name: string): void {
  try {
    writeFileSync(`/proc/sys/net/ipv6/conf/${name}/disable_ipv6`, '1');
  } catch {
    // A kernel without IPv6.
  }
}
