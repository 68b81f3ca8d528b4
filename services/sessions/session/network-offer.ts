import { type Network, NetworkMode } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { KnownWorker } from '../worker/worker-directory.ts';

/** The workers that have the network a session asks for. Refuses where there are workers, but none with it. */
export function offering(workers: readonly KnownWorker[], network: Network | undefined): readonly KnownWorker[] {
  const mode = network?.mode ?? NetworkMode.NONE;
  if (mode !== NetworkMode.EGRESS && mode !== NetworkMode.FULL) return workers;
  const word = mode === NetworkMode.EGRESS ? 'network_egress' : 'network_full';
  const having = workers.filter(({ record }) => record.capabilities.includes(word));
  if (having.length > 0 || workers.length === 0) return having;
  const name = NetworkMode[mode];
  const message =
    `network.mode: none of ${workers.length} workers offers ${name}; GetServerInfo tells what they have (${word}), ` +
    'their operator permits modes with ASSAY_NETWORK_MODES, and a worker needs root on its host for any';
  throw new DomainError('NETWORK_NOT_OFFERED', message, { field: 'network.mode', mode: name });
}
