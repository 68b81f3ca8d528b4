import { createHash } from 'node:crypto';
import { type AddressRange, showRange } from '../address-range.ts';

/** What decides over the packets of the sessions with full network. */
export interface PacketRulesSpec {
  readonly installation: string;
  readonly sessions: AddressRange;
  /** Closed to every session. */
  readonly closed: readonly AddressRange[];
  /** Open for names, though they may be in a closed range. */
  readonly nameServers: readonly string[];
  /** Blocked by the operator. */
  readonly blocked: readonly AddressRange[];
}

/** Marks every rule of an installation, in characters that iptables-save does not quote. */
export function ruleMark(installation: string): string {
  return `assay-${installation}`;
}

/** Five characters for an installation: the names of interfaces and chains are short. */
export function tagOf(installation: string): string {
  const digest = createHash('sha256').update(installation).digest();
  return digest.readUInt32BE().toString(36).padStart(7, '0').slice(-5);
}

/** The host's end of a session's link. */
export function linkName(installation: string, index: number): string {
  return `${linkPrefix(installation)}${index.toString(36)}`;
}

/** Begins the names of the links of every installation. */
export const anyLink = 'asy';

const linkPrefix = (installation: string): string => `${anyLink}${tagOf(installation)}-`;

/** Interfaces of containers that are no sessions of ours. */
const containerBridges = ['docker0', 'br-+'];

/**
 * For iptables-restore. What is closed is dropped in mangle PREROUTING: before routing, before any translation of addresses
 * and before every rule of Docker's, for the host itself and for what it would pass on alike.
 */
export function packetRules(spec: PacketRulesSpec): string {
  const { installation, sessions } = spec;
  const links = `${linkPrefix(installation)}+`;
  const chain = `ASSAY-${tagOf(installation)}`;
  const mark = `-m comment --comment ${ruleMark(installation)}`;
  const drop = (match: string): string => `-A ${chain}-IN ${match} -j DROP`;
  const four = (ranges: readonly AddressRange[]) => ranges.filter(({ family }) => family === 'ipv4').map(showRange);
  return [
    '*mangle',
    `:${chain}-IN - [0:0]`,
    `:${chain}-ACROSS - [0:0]`,
    `:${chain}-OUT - [0:0]`,
    drop(`! -s ${showRange(sessions)}`),
    drop('-m addrtype --dst-type LOCAL'),
    drop('-m addrtype --dst-type BROADCAST'),
    drop('-m addrtype --dst-type MULTICAST'),
    ...four([...spec.closed, sessions]).map((range) => drop(`-d ${range}`)),
    ...spec.nameServers.flatMap((server) =>
      ['udp', 'tcp'].map((protocol) => `-A ${chain}-IN -d ${server}/32 -p ${protocol} --dport 53 -j RETURN`),
    ),
    ...four(spec.blocked).map((range) => drop(`-d ${range}`)),
    ...[`${anyLink}+`, ...containerBridges].map((bridge) => `-A ${chain}-ACROSS -o ${bridge} -j DROP`),
    // Nobody opens a connection to a session.
    `-A ${chain}-OUT -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN`,
    `-A ${chain}-OUT -j DROP`,
    `-I PREROUTING -i ${links} ${mark} -j ${chain}-IN`,
    `-I FORWARD -i ${links} ${mark} -j ${chain}-ACROSS`,
    `-I POSTROUTING -o ${links} ${mark} -j ${chain}-OUT`,
    'COMMIT',
    '*filter',
    // Last, so that what the operator drops before stays dropped: this only lifts Docker's policy.
    `-A FORWARD -i ${links} ${mark} -j ACCEPT`,
    `-A FORWARD -o ${links} ${mark} -j ACCEPT`,
    'COMMIT',
    '*nat',
    `-A POSTROUTING -s ${showRange(sessions)} ! -o ${anyLink}+ ${mark} -j MASQUERADE`,
    'COMMIT',
    '',
  ].join('\n');
}

/** For ip6tables-restore: there is no IPv6. */
export function packetRules6(installation: string): string {
  const links = `${linkPrefix(installation)}+`;
  const mark = `-m comment --comment ${ruleMark(installation)}`;
  return [
    '*mangle',
    `-I PREROUTING -i ${links} ${mark} -j DROP`,
    `-I POSTROUTING -o ${links} ${mark} -j DROP`,
    'COMMIT',
    '',
  ].join('\n');
}

/** Arguments of iptables that succeed only if the rules are there. */
export function ruleCheck(installation: string): string[] {
  const mark = ['-m', 'comment', '--comment', ruleMark(installation)];
  const chain = `ASSAY-${tagOf(installation)}-IN`;
  return ['-w', '10', '-t', 'mangle', '-C', 'PREROUTING', '-i', `${linkPrefix(installation)}+`, ...mark, '-j', chain];
}

/**
 * What undoes the installation's rules in a dump of iptables-save, table by table, for iptables-restore. With `keepChains`
 * they stay, for rules that follow in the same transaction.
 */
export function rulesRemoval(dump: string, installation: string, keepChains: boolean): string[] {
  const marked = new RegExp(`--comment "?${ruleMark(installation)}"?(?![\\w-])`);
  const chain = `ASSAY-${tagOf(installation)}-`;
  const lines: string[] = [];
  for (const block of dump.split(/^(?=\*)/m)) {
    const found = block.split('\n');
    const rules = found.filter((line) => marked.test(line)).map((line) => line.replace(/^-A /, '-D '));
    const chains = found
      .filter((line) => line.startsWith(`:${chain}`))
      .map((line) => line.slice(1).split(' ')[0] ?? '');
    if (rules.length + chains.length === 0) continue;
    const removed = keepChains ? [] : [...chains.map((name) => `-F ${name}`), ...chains.map((name) => `-X ${name}`)];
    lines.push(found[0] ?? '', ...rules, ...removed, 'COMMIT');
  }
  return lines;
}
