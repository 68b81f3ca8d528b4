import { lookup } from 'node:dns/promises';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { identify } from '../setup/process-table.mjs';

const listening = '0A';

/**
 * Whether this process, and no other, has the socket that answers at this address. What answers there may be anybody's
 * program; who holds the port is the kernel's word.
 */
export async function isHeldBy(pid, host, port) {
  const sockets = await socketsAt(host, port);
  const own = pid === undefined ? new Set() : socketsOf(pid);
  return sockets.length > 0 && sockets.every(({ inode }) => own.has(inode));
}

/** Who holds the address, in words: `node (process 4711)`. Undefined: nobody does. */
export async function holderOf(host, port) {
  const [socket] = await socketsAt(host, port);
  if (!socket) return undefined;
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry) || !socketsOf(entry).has(socket.inode)) continue;
    return `${identify(Number(entry))?.name ?? 'a process'} (process ${entry})`;
  }
  return `a process of the user ${socket.uid}`;
}

/** The sockets that a connection to this address may reach: those that listen there, or everywhere. */
async function socketsAt(host, port) {
  const { address } = await lookup(host).catch(() => ({ address: host }));
  const wanted = new Set([hexadecimal(address), '00000000', '0'.repeat(32)]);
  return ['tcp', 'tcp6'].flatMap(readTable).filter((socket) => socket.port === port && wanted.has(socket.address));
}

function readTable(name) {
  let text;
  try {
    text = readFileSync(`/proc/self/net/${name}`, 'utf8');
  } catch {
    // A kernel without IPv6 has no such table.
    return [];
  }
  return text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === listening)
    .map((fields) => {
      const [address, port] = fields[1].split(':');
      return { address, port: Number.parseInt(port, 16), uid: fields[7], inode: fields[9] };
    });
}

/** As the kernel writes it: words of 32 bits in the order of the machine, which is little-endian wherever this runs. */
function hexadecimal(address) {
  const bytes = isIPv6(address) ? bytesOfIPv6(address) : Buffer.from(address.split('.').map(Number));
  return bytes.swap32().toString('hex').toUpperCase();
}

function bytesOfIPv6(address) {
  const [head, tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = (text) => (text ? text.split(':') : []);
  const [first, last] = [groups(head), groups(tail)];
  const all = [...first, ...Array(8 - first.length - last.length).fill('0'), ...last];
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex');
}

/** The sockets of a process; none where it may not be looked at. */
function socketsOf(pid) {
  try {
    const links = readdirSync(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`));
    return new Set(links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]).filter(Boolean));
  } catch {
    return new Set();
  }
}

function linkOf(file) {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
