import type { BrokerFiles } from './broker-config.mjs';
import type { Child } from './child.mjs';

export interface BrokerWatchOptions {
  child: Pick<Child, 'pid' | 'log' | 'replace'>;
  broker: Pick<BrokerFiles, 'systemAuthFile' | 'store'> & { port: number };
  /** How long the broker has to end by itself. */
  graceMs: number;
  onNotice?: (text: string) => void;
}

/** Restarts a broker that takes no more writes, once its disk has room. Returns what ends the watch. */
export function watchBroker(options: BrokerWatchOptions): () => void;
