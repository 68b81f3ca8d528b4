import type { ServerInfo } from '@nats-io/transport-node';
import { ConfigError } from '../config.ts';

/** The oldest cluster whose compare-and-set is right, also while its leader changes. */
const oldestCluster = [2, 11] as const;

/** Throws where compare-and-set cannot be relied on: in a cluster of an old nats-server. A single node is right in every version. */
export function checkBrokerVersion(
  { version, cluster }: Pick<ServerInfo, 'version' | 'cluster'>,
  replicas: number,
): void {
  if (cluster === undefined && replicas === 1) return;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = oldestCluster;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  const found = cluster === undefined ? `ASSAY_NATS_REPLICAS is ${replicas}` : `it belongs to the cluster "${cluster}"`;
  throw new ConfigError(
    `bad configuration:\n  ASSAY_NATS_URL: the broker is nats-server ${version} and ${found}; a cluster needs nats-server ${oldestCluster.join('.')} or newer, because older ones lose compare-and-set writes. Upgrade every node, or use one node without a cluster.`,
  );
}
