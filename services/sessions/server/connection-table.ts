import { DomainError } from '../../shared/domain-error.ts';
import type { Peer } from '../auth/peer.ts';
import type { Limits } from '../config.ts';
import { networkOf } from './network-address.ts';

/** Why this server closes a connection: nobody uses it, or another one needs its place. */
export type CloseReason = 'idle' | 'evicted';

/** An open connection of the public port. */
export interface Connection extends Peer {
  /** Set where the connection is one too many: every call on it is answered with this error. */
  readonly refusal: DomainError | undefined;
  /** Says how it is closed, once its protocol is known. */
  closeBy(close: (reason: CloseReason) => void): void;
  onProven(listener: () => void): void;
  /** A call has begun on it, which the returned function ends. */
  begin(): () => void;
  /** It is closed, by whomever. */
  gone(): void;
}

/** All open connections: how many there may be, and which one goes for a newcomer. */
export interface ConnectionTable {
  open(address: string, close: (reason: CloseReason) => void): Connection;
  close(): void;
}

type TableLimits = Pick<
  Limits,
  'connections' | 'connectionsPerAddress' | 'connectionsPerProject' | 'unprovenMs' | 'idleMs'
>;

interface Entry {
  readonly network: Network;
  readonly openedMs: number;
  /** False once it was taken out of the table. */
  listed: boolean;
  /** Whether it was asked to close. */
  leaving: boolean;
  /** Whose key it brought first. Undefined: it has brought no valid key. */
  project: string | undefined;
  calls: number;
  idleSinceMs: number;
  close(reason: CloseReason): void;
}

/** The connections of one address, each set in the order in which its members came into it. */
interface Network {
  readonly name: string;
  open: number;
  /** Those that have brought no valid key. */
  readonly unproven: Set<Entry>;
  /** Those that have brought one and have no call open. */
  readonly idle: Set<Entry>;
  /** How many without a key it is listed with. */
  crowd: number;
}

/** Connections that are one too many, and stay just long enough to be told so. */
const refusedAtOnce = 256;
const refusedMs = 2_000;
const sweepMs = 1_000;

export function createConnectionTable(limits: TableLimits, now = performance.now.bind(performance)): ConnectionTable {
  const networks = new Map<string, Network>();
  /** Networks by how many connections without a key they have: a newcomer costs the same however many networks there are. */
  const crowds: Set<Network>[] = [];
  let largestCrowd = 0;
  /** Of all networks, the longest idle first. */
  const idle = new Set<Entry>();
  const refused = new Set<() => void>();
  /** How many each project has, of those that have brought a key. */
  const proven = new Map<string, number>();
  let open = 0;
  const sweeping = setInterval(sweep, sweepMs);
  sweeping.unref();

  function sweep(): void {
    const ms = now();
    for (const { unproven, idle } of networks.values()) {
      for (const entry of [...unproven]) {
        if (ms - entry.openedMs < limits.unprovenMs) break;
        if (entry.calls === 0) leave(entry);
      }
      for (const entry of [...idle]) {
        if (ms - entry.idleSinceMs < limits.idleMs) break;
        leave(entry);
      }
    }
  }

  /** It counts until it is closed: a client may go on with calls that it began before it heard. */
  function leave(entry: Entry): void {
    if (entry.leaving) return;
    entry.leaving = true;
    entry.close('idle');
  }

  function evict(entry: Entry): void {
    forget(entry);
    entry.close('evicted');
  }

  /** Takes it out of the table; again does nothing. */
  function forget(entry: Entry): void {
    if (!entry.listed) return;
    entry.listed = false;
    const { network } = entry;
    network.unproven.delete(entry);
    recount(network);
    network.idle.delete(entry);
    idle.delete(entry);
    if (entry.project !== undefined) count(entry.project, -1);
    open -= 1;
    network.open -= 1;
    if (network.open === 0) networks.delete(network.name);
  }

  /** To be called when the number of a network's connections without a key has changed. */
  function recount(network: Network): void {
    crowds[network.crowd]?.delete(network);
    network.crowd = network.unproven.size;
    if (network.crowd > 0) {
      crowds[network.crowd] ??= new Set();
      crowds[network.crowd]?.add(network);
    }
    largestCrowd = Math.max(largestCrowd, network.crowd);
    while (largestCrowd > 0 && (crowds[largestCrowd]?.size ?? 0) === 0) largestCrowd -= 1;
  }

  function count(project: string, change: 1 | -1): void {
    const left = (proven.get(project) ?? 0) + change;
    if (left > 0) proven.set(project, left);
    else proven.delete(project);
  }

  /** Has the entry keep its place. One over the limit of its project stays without, and goes for the next newcomer. */
  function claim(entry: Entry, project: string): void {
    const held = proven.get(project) ?? 0;
    if (held >= limits.connectionsPerProject) throw tooMany('project', held, 'ASSAY_LIMIT_CONNECTIONS_PER_PROJECT');
    entry.project = project;
    entry.network.unproven.delete(entry);
    recount(entry.network);
    if (entry.listed) count(project, 1);
  }

  function rest(entry: Entry): void {
    if (!entry.listed || entry.calls > 0) return;
    entry.idleSinceMs = now();
    entry.network.idle.add(entry);
    idle.add(entry);
  }

  function busy(entry: Entry): void {
    entry.network.idle.delete(entry);
    idle.delete(entry);
  }

  /** The oldest without a key; else the longest idle, if that was for long. */
  function victim(unproven: ReadonlySet<Entry>, resting: ReadonlySet<Entry>): Entry | undefined {
    if (unproven.size > 0) return oldestOf(unproven);
    const [longest] = resting;
    return longest !== undefined && now() - longest.idleSinceMs > limits.unprovenMs ? longest : undefined;
  }

  /** Of all networks, the one that has most without a key. */
  function mostCrowded(): Network | undefined {
    return crowds[largestCrowd]?.values().next().value;
  }

  function makeRoom(network: Network): DomainError | undefined {
    if (network.open >= limits.connectionsPerAddress) {
      const entry = victim(network.unproven, network.idle);
      if (entry === undefined) return tooMany('address', network.open, 'ASSAY_LIMIT_CONNECTIONS_PER_ADDRESS');
      evict(entry);
    }
    if (open < limits.connections) return undefined;
    const entry = victim(mostCrowded()?.unproven ?? none, idle);
    if (entry === undefined) return tooMany('server', open, 'ASSAY_LIMIT_CONNECTIONS');
    evict(entry);
    return undefined;
  }

  /** A connection outside of the table, for as long as it takes to say why. The first that came goes for the last. */
  function refuse(address: string, refusal: DomainError, how: (reason: CloseReason) => void): Connection {
    let closeIt = how;
    const drop = (): void => {
      clearTimeout(timer);
      if (refused.delete(drop)) closeIt('evicted');
    };
    const timer = setTimeout(drop, refusedMs);
    const [first] = refused;
    if (refused.size >= refusedAtOnce) first?.();
    refused.add(drop);
    return {
      ...{ address, refusal, prove() {}, onProven() {}, begin: () => () => {} },
      closeBy(close) {
        closeIt = close;
      },
      gone() {
        clearTimeout(timer);
        refused.delete(drop);
      },
    };
  }

  return {
    open(address, how) {
      const name = networkOf(address);
      const network = networks.get(name) ?? { name, open: 0, unproven: new Set(), idle: new Set(), crowd: 0 };
      const refusal = makeRoom(network);
      if (refusal !== undefined) return refuse(name, refusal, how);
      networks.set(name, network);
      const state = { listed: true, leaving: false, project: undefined, calls: 0, idleSinceMs: 0 };
      const entry: Entry = { network, openedMs: now(), ...state, close: how };
      open += 1;
      network.open += 1;
      network.unproven.add(entry);
      recount(network);
      return connectionOf(entry, {
        gone: () => forget(entry),
        claim: (project) => claim(entry, project),
        rest: () => rest(entry),
        busy: () => busy(entry),
      });
    },
    close() {
      clearInterval(sweeping);
      for (const drop of [...refused]) drop();
    },
  };
}

interface ConnectionDeps {
  gone(): void;
  claim(project: string): void;
  /** The last call has ended, or the first is still to come. */
  rest(): void;
  busy(): void;
}

const none: ReadonlySet<Entry> = new Set();

function connectionOf(entry: Entry, { gone, claim, rest, busy }: ConnectionDeps): Connection {
  const { network } = entry;
  let onProven = (): void => {};
  return {
    ...{ address: network.name, refusal: undefined, gone },
    closeBy(close) {
      entry.close = close;
    },
    onProven(listener) {
      onProven = listener;
    },
    prove(project) {
      if (entry.project !== undefined) return;
      claim(project);
      rest();
      onProven();
    },
    begin() {
      if (entry.calls === 0) busy();
      entry.calls += 1;
      return () => {
        entry.calls -= 1;
        if (entry.project !== undefined) rest();
      };
    },
  };
}

/** The oldest that has no call open, which may be one that needs no key. */
function oldestOf(entries: ReadonlySet<Entry>): Entry | undefined {
  for (const entry of entries) if (entry.calls === 0) return entry;
  return entries.values().next().value;
}

function tooMany(whose: 'address' | 'server' | 'project', open: number, name: string): DomainError {
  const message = `${whose === 'project' ? 'the' : 'this'} ${whose} has ${open} open connections, the limit (${name})`;
  return new DomainError('CONNECTION_QUOTA', `${message}; use those it has, or try again in a moment`, {
    limit: String(open),
  });
}
