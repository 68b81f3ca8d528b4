import type { Socket } from 'node:net';
import { type HostPattern, matchesHost } from '../../../shared/host-pattern.ts';
import type { ClosedAddresses } from '../closed-addresses.ts';
import { connectTo } from './connection.ts';
import type { ResolveName } from './name-resolver.ts';
import type { Turn } from './paced-socket.ts';
import { Refusal } from './refusal.ts';
import type { Target } from './target.ts';
import type { UpstreamProxy } from './upstream-proxy.ts';

export interface RouteDeps {
  readonly closed: ClosedAddresses;
  readonly resolve: ResolveName;
  /** The proxy that stands between the worker and this host, if one does. */
  readonly upstream: (host: string) => UpstreamProxy | undefined;
  readonly waitMs: number;
}

/** For whom a route is opened. */
export interface Traveller {
  /** Aborted when the client goes away. */
  readonly gone: AbortSignal;
  readonly turn: Turn;
}

const addressesTried = 4;

/** Refuses a host that is not on the list. */
export function admit(allow: readonly HostPattern[], { host, port }: Target): void {
  if (allow.some((pattern) => matchesHost(pattern, host, port))) return;
  const name = port === 80 || port === 443 ? host : `${host}:${port}`;
  const add = `add it with --allow ${name} (network.allow of CreateSession)`;
  throw new Refusal(403, `host ${name} is not on the session's allow-list; ${add}`);
}

/**
 * A connection to the target, which was admitted. The address that was checked is the one that is connected to: a name
 * that answers differently a moment later gains nothing. `through` goes by the worker's own proxy, if there is one.
 */
export async function openRoute(
  deps: RouteDeps,
  target: Target,
  through: (upstream: UpstreamProxy, target: Target, waitMs: number, signal: AbortSignal) => Promise<Socket>,
  { gone: signal, turn }: Traveller,
): Promise<Socket> {
  const upstream = deps.upstream(target.host);
  const addresses = await openAddresses(deps, target.host, upstream !== undefined, turn);
  if (upstream !== undefined) return through(upstream, target, deps.waitMs, signal);
  let failure = `host ${target.host} has no address`;
  for (const address of addresses.slice(0, addressesTried)) {
    try {
      return await connectTo(address, target.port, deps.waitMs, signal);
    } catch (error) {
      failure = `host ${target.host} could not be reached at ${address}: ${(error as Error).message}`;
    }
  }
  throw new Refusal(502, failure);
}

/** Those of the host's addresses that a session may reach; refused where it has only others. */
async function openAddresses(
  deps: RouteDeps,
  host: string,
  mayBeUnknown: boolean,
  turn: Turn,
): Promise<readonly string[]> {
  let addresses: readonly string[];
  try {
    addresses = await deps.resolve(host);
  } catch (error) {
    // Behind a proxy a worker need not know any name.
    if (mayBeUnknown) return [];
    throw new Refusal(502, `host ${host} has no address: ${(error as NodeJS.ErrnoException).code ?? 'unknown'}`);
  } finally {
    await turn();
  }
  const open = addresses.filter((address) => deps.closed.why(address) === undefined);
  const [first] = addresses;
  if (open.length > 0 || first === undefined) return open;
  throw new Refusal(403, `host ${host} has the address ${first}, which ${deps.closed.why(first)}`);
}
