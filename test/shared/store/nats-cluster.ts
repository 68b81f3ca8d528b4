import { freePort } from '../../../scripts/stack/port.mjs';
import { type NatsProcess, startNats } from './nats-process.ts';

/** The lines of a configuration that make a broker one node of a cluster, whose nodes listen for each other at `ports`. */
export function clusterNode(ports: readonly number[], node: number): string {
  const routes = ports.map((port) => `nats-route://127.0.0.1:${port}`).join(', ');
  return `server_name: node${node}\ncluster { name: test, listen: "127.0.0.1:${ports[node]}", routes: [${routes}] }`;
}

/** Free ports, each another one. */
export async function clusterPorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}

export function startNode(ports: readonly number[], node: number): Promise<NatsProcess> {
  return startNats(clusterNode(ports, node));
}
