import { type Network, NetworkMode } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { type HostPattern, parseHostPattern } from '../../shared/host-pattern.ts';
import type { Logger } from '../../shared/log.ts';
import { resolverFile } from '../docker/name-files.ts';
import type { Door } from './egress/door.ts';
import type { EgressGate, EgressProxy } from './egress/proxy.ts';
import type { FullNetwork } from './full/full-network.ts';

export interface NetworksDeps {
  /** What the operator permits. */
  readonly modes: readonly NetworkMode[];
  /** Undefined: there is no program for it. */
  readonly door: Door | undefined;
  readonly proxy: EgressProxy;
  /** What every egress session may reach. */
  readonly allow: readonly HostPattern[];
  readonly full: FullNetwork;
  readonly log: Logger;
}

/** What the sandboxes of this worker can reach. Every sandbox starts with nothing; this adds to it from outside. */
export interface Networks {
  /** The modes beside none that this worker has, as words; known after ready(). */
  readonly capabilities: readonly string[];
  ready(): Promise<void>;
  /** Refuses a mode that this worker does not have. */
  check(network: Network | undefined): void;
  /** Variables that programs need to use the network. */
  environment(network: Network | undefined): Record<string, string>;
  /** Opens what the mode asks for. */
  attach(sessionId: string, network: Network | undefined, sandbox: Attachable): Promise<void>;
  /** Takes up a sandbox that was attached by a worker before this one. */
  reattach(sessionId: string, network: Network | undefined, sandbox: Attachable): Promise<void>;
  /** Closes what the worker holds for the session; the rest goes with its container. */
  detach(sessionId: string): void;
  /** Removes from the host what no sandbox needs any more, also what a life before left. Rejects only where it is needed again. */
  settle(): Promise<void>;
  /** Attaches nothing any more and lets go of everything. What sandboxes that live on need stays on the host. */
  close(): Promise<void>;
}

/** The sandbox as this needs it. */
export interface Attachable {
  readonly project: string;
  /** The container's first process; undefined where it does not run. */
  readonly pid: number | undefined;
  readonly slot: { readonly runDirectory: string };
}

/** Where programs in a sandbox find the proxy. */
const proxyPort = 3128;

const words = { [NetworkMode.EGRESS]: 'network_egress', [NetworkMode.FULL]: 'network_full' } as const;

export function createNetworks(deps: NetworksDeps): Networks {
  const { door, proxy, full, log } = deps;
  const offered = new Set<NetworkMode>();
  /** Why a mode that is permitted is not possible here. */
  const obstacleOf = new Map<NetworkMode, string>();
  const gates = new Map<string, EgressGate>();
  const withFull = new Set<string>();
  const attaching = new Set<Promise<void>>();
  let closed = false;

  async function openGate(sessionId: string, network: Network, { pid, project }: Attachable): Promise<void> {
    if (door === undefined) throw notOffered(NetworkMode.EGRESS);
    if (pid === undefined) throw new Error('its container does not run');
    const asked = network.allow.map(parseHostPattern).filter((pattern) => pattern !== undefined);
    const listener = await door.listen(pid, proxyPort);
    gates.set(sessionId, proxy.serve(listener, { project, sessionId, allow: [...deps.allow, ...asked] }));
  }

  async function attach(sessionId: string, network: Network, sandbox: Attachable): Promise<void> {
    const mode = modeOf(network);
    try {
      if (mode === NetworkMode.EGRESS) return await openGate(sessionId, network, sandbox);
      withFull.add(sessionId);
      if (sandbox.pid === undefined) throw new Error('its container does not run');
      await full.attach({ resolverFile: resolverFile(sandbox.slot.runDirectory), pid: sandbox.pid });
    } catch (error) {
      withFull.delete(sessionId);
      if (error instanceof DomainError) throw error;
      log.error({ session_id: sessionId, err: error }, 'a network could not be attached');
      const message = `the network ${NetworkMode[mode]} could not be attached: ${(error as Error).message}`;
      throw new DomainError('ENGINE_FAILED', message);
    }
  }

  return {
    get capabilities() {
      return [...offered].map((mode) => words[mode as keyof typeof words]);
    },
    async ready() {
      const obstacles = {
        [NetworkMode.EGRESS]: () => door?.obstacle() ?? Promise.resolve('ASSAY_NETDOOR_PATH is not set'),
        [NetworkMode.FULL]: full.obstacle,
      };
      const wanted = ([NetworkMode.EGRESS, NetworkMode.FULL] as const).filter((mode) => deps.modes.includes(mode));
      const found = await Promise.all(wanted.map((mode) => obstacles[mode]()));
      wanted.forEach((mode, at) => {
        const why = found[at];
        if (why === undefined) {
          offered.add(mode);
          return;
        }
        obstacleOf.set(mode, why);
        log.warn({ mode: NetworkMode[mode], why }, 'a network mode is permitted, but not possible here');
      });
    },
    check(network) {
      const mode = modeOf(network);
      if (mode !== NetworkMode.NONE && !offered.has(mode)) throw notOffered(mode, obstacleOf.get(mode));
    },
    environment(network) {
      if (modeOf(network) !== NetworkMode.EGRESS) return {};
      const url = `http://127.0.0.1:${proxyPort}`;
      const direct = 'localhost,127.0.0.1,::1';
      return {
        ...{ HTTP_PROXY: url, HTTPS_PROXY: url, NO_PROXY: direct },
        ...{ http_proxy: url, https_proxy: url, no_proxy: direct },
        // Without it Node's own fetch does not look at the others.
        NODE_USE_ENV_PROXY: '1',
      };
    },
    async attach(sessionId, network, sandbox) {
      if (network === undefined || modeOf(network) === NetworkMode.NONE) return;
      // Rules that came after the last removal would outlive the worker.
      if (closed) throw new DomainError('SHUTTING_DOWN', 'the worker is stopping; try again');
      const attached = attach(sessionId, network, sandbox);
      attaching.add(attached);
      await attached.finally(() => attaching.delete(attached));
    },
    async reattach(sessionId, network, sandbox) {
      const mode = modeOf(network);
      try {
        if (mode === NetworkMode.FULL) {
          withFull.add(sessionId);
          await full.keep();
        }
        if (mode === NetworkMode.EGRESS && network !== undefined) await openGate(sessionId, network, sandbox);
      } catch (error) {
        // A program of the session may hold the proxy's port by now: it has itself to thank, and the rest of it works.
        log.warn({ session_id: sessionId, err: error }, 'a network could not be attached again');
      }
    },
    detach(sessionId) {
      gates.get(sessionId)?.close();
      gates.delete(sessionId);
      withFull.delete(sessionId);
    },
    async settle() {
      if (withFull.size > 0) return;
      try {
        await full.remove();
      } catch (error) {
        if (offered.has(NetworkMode.FULL)) throw error;
        log.warn({ err: error }, 'packet rules of a life before could not be looked for');
      }
    },
    async close() {
      closed = true;
      await Promise.allSettled(attaching);
      for (const gate of gates.values()) gate.close();
      gates.clear();
      door?.close();
      await this.settle();
    },
  };
}

/** Absent and unspecified are none. */
function modeOf(network: Network | undefined): NetworkMode {
  return network === undefined || network.mode === NetworkMode.UNSPECIFIED ? NetworkMode.NONE : network.mode;
}

function notOffered(mode: NetworkMode, obstacle?: string): DomainError {
  const name = NetworkMode[mode] ?? String(mode);
  const why = obstacle ?? 'its operator permits modes with ASSAY_NETWORK_MODES';
  const message = `network.mode: this worker does not offer ${name}; ${why}`;
  return new DomainError('NETWORK_NOT_OFFERED', message, { field: 'network.mode', mode: name });
}
