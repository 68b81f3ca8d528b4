import type { Logger } from '../../shared/log.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { WorkerConfig } from '../config.ts';
import { createClosedAddresses } from './closed-addresses.ts';
import { createDoor } from './egress/door.ts';
import { createNameResolver } from './egress/name-resolver.ts';
import { createEgressProxy } from './egress/proxy.ts';
import { upstreamFrom } from './egress/upstream-proxy.ts';
import { createFullNetwork } from './full/full-network.ts';
import { createNetworks, type Networks } from './networks.ts';

/** The networks as the settings want them. */
export function createWorkerNetworks(config: WorkerConfig, shares: WorkShares, log: Logger): Networks {
  const blocked = config.ASSAY_BLOCKED_NETWORKS;
  const sessions = config.ASSAY_FULL_SUBNET;
  const hostsFile = config.ASSAY_EGRESS_HOSTS_FILE;
  const proxy = createEgressProxy({
    closed: createClosedAddresses({ blocked, sessions }),
    resolve: createNameResolver([...(hostsFile === undefined ? [] : [hostsFile]), '/etc/hosts']),
    upstream: upstreamFrom(process.env),
    limits: {
      connections: config.ASSAY_EGRESS_CONNECTIONS,
      projectConnections: config.ASSAY_EGRESS_CONNECTIONS_PER_PROJECT,
      headBytes: config.ASSAY_EGRESS_HEAD_BYTES,
      waitMs: config.ASSAY_EGRESS_WAIT_SECONDS * 1_000,
      idleMs: config.ASSAY_EGRESS_IDLE_SECONDS * 1_000,
    },
    shares,
    log,
  });
  const full = createFullNetwork({
    installation: config.ASSAY_INSTALLATION,
    sessions,
    blocked,
    nameServers: config.ASSAY_FULL_NAME_SERVERS,
  });
  const door = config.ASSAY_NETDOOR_PATH === undefined ? undefined : createDoor(config.ASSAY_NETDOOR_PATH);
  return createNetworks({
    modes: config.ASSAY_NETWORK_MODES,
    allow: config.ASSAY_EGRESS_ALLOW,
    ...{ door, proxy, full, log },
  });
}
