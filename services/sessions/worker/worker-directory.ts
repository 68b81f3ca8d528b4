import type { WorkerRecord } from '../../../gen/assay/events/v1/records_pb.js';
import type { Broker } from '../../shared/store/broker.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import type { WorkerStore } from '../../shared/store/worker-store.ts';

export interface KnownWorker {
  readonly record: WorkerRecord;
  /** Whether its registration was refreshed lately, as far as this process could see. */
  readonly reachable: boolean;
}

export function workerState({ record, reachable }: KnownWorker): 'reachable' | 'silent' | 'draining' {
  if (!reachable) return 'silent';
  return record.draining ? 'draining' : 'reachable';
}

/** The workers, through their registrations. */
export interface WorkerDirectory {
  find(workerId: string): Promise<KnownWorker | undefined>;
  /** From memory only: undefined where this process has not seen the worker yet. */
  peek(workerId: string): KnownWorker | undefined;
  all(): KnownWorker[];
}

export interface WorkerDirectoryDeps {
  readonly view: RecordView<WorkerRecord>;
  readonly workers: WorkerStore;
  readonly broker: Pick<Broker, 'onConnectionChange'>;
  readonly now: () => number;
  readonly silentAfterMs?: number;
}

/**
 * Silence is counted on this process's own clock from the last refresh it saw, and only while the broker was there to
 * show refreshes: clocks of other machines and outages of the broker make no worker silent.
 */
export function createWorkerDirectory(deps: WorkerDirectoryDeps): WorkerDirectory {
  const { view, workers, now, silentAfterMs = 10_000 } = deps;
  let listeningSinceMs = now();
  let lostAtMs: number | undefined;
  deps.broker.onConnectionChange((connected) => {
    if (connected) listeningSinceMs = now();
    lostAtMs = connected ? undefined : now();
  });
  const peek = (workerId: string): KnownWorker | undefined => {
    const seen = view.get(workerId);
    if (seen === undefined) return undefined;
    const silenceMs = (lostAtMs ?? now()) - Math.max(seen.seenAtMs, listeningSinceMs);
    return { record: seen.value, reachable: silenceMs <= silentAfterMs };
  };
  return {
    peek,
    async find(workerId) {
      const known = peek(workerId);
      if (known !== undefined) return known;
      const stored = await workers.get(workerId);
      if (stored !== undefined) view.note(workerId, stored);
      return peek(workerId);
    },
    all: () => [...view.entries()].map(([workerId]) => peek(workerId)).filter((worker) => worker !== undefined),
  };
}
