import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { inject } from 'vitest';
import { runId } from '../run.ts';

/** Addresses of the outside, in a network namespace of this machine: no packet for them leaves it. */
export interface StandIns {
  /** For the public internet. */
  readonly publicAddress: string;
  readonly metadataAddress: string;
  readonly privateAddress: string;
  readonly ipv6Address: string;
  /** Where all of them answer over HTTP, with the word `stand-in`. */
  readonly port: number;
  /** Makes the metadata and the private address reachable for packets from this address, and for no others of the host's. */
  routeFor(source: string): void;
  remove(): void;
}

const port = 8080;
const server = `require('node:http').createServer((q, r) => r.end('stand-in')).listen(${port}, '::', () => console.log('up'))`;

function ip(...args: string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Runs all, whatever fails. */
function undoAll(steps: readonly (readonly string[])[]): void {
  for (const step of steps) {
    try {
      ip(...step);
    } catch {
      // It was never made, or went with something before it.
    }
  }
}

export async function makeStandIns(): Promise<StandIns> {
  const namespace = `assay-${runId()}`;
  const link = `t${runId().slice(1, 10)}`;
  const undo: string[][] = [];
  const make = (does: string[], undoes?: string[]) => {
    ip(...does);
    if (undoes !== undefined) undo.unshift(undoes);
  };
  // Of TEST-NET-2; another run of this test on this machine has, but for bad luck, another part of it.
  const part = randomInt(32);
  const [host, peer] = [`198.51.100.${8 * part + 1}`, `198.51.100.${8 * part + 2}`];
  const six = `2001:db8:${randomInt(1, 65_536).toString(16)}`;
  const table = String(randomInt(10_000, 2 ** 30));
  const addresses = {
    publicAddress: `198.51.100.${8 * part + 5}`,
    metadataAddress: '169.254.169.254',
    privateAddress: `10.${randomInt(256)}.${randomInt(256)}.9`,
    ipv6Address: `${six}::2`,
  };
  try {
    make(['netns', 'add', namespace], ['netns', 'del', namespace]);
    make(['link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace], ['link', 'del', link]);
    ip('-n', namespace, 'link', 'set', 'lo', 'up');
    ip('-n', namespace, 'link', 'set', 'eth0', 'up');
    ip('-n', namespace, 'addr', 'add', `${peer}/29`, 'dev', 'eth0');
    ip('-n', namespace, 'addr', 'add', `${six}::2/64`, 'dev', 'eth0', 'nodad');
    for (const address of [addresses.publicAddress, addresses.metadataAddress, addresses.privateAddress]) {
      ip('-n', namespace, 'addr', 'add', `${address}/32`, 'dev', 'lo');
    }
    ip('link', 'set', link, 'up');
    ip('addr', 'add', `${host}/29`, 'dev', link);
    ip('addr', 'add', `${six}::1/64`, 'dev', link, 'nodad');
    ip('route', 'add', `${addresses.publicAddress}/32`, 'via', peer, 'dev', link);
    for (const address of [addresses.metadataAddress, addresses.privateAddress]) {
      ip('route', 'add', `${address}/32`, 'via', peer, 'dev', link, 'table', table);
    }
    const child = spawn('ip', ['netns', 'exec', namespace, inject('setup').nodePath, '-e', server], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const remove = (): void => {
      child.kill('SIGKILL');
      undoAll(undo);
    };
    await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
    return {
      ...addresses,
      port,
      routeFor: (source) =>
        make(['rule', 'add', 'from', `${source}/32`, 'lookup', table], ['rule', 'del', 'table', table]),
      remove,
    };
  } catch (error) {
    undoAll(undo);
    throw error;
  }
}
