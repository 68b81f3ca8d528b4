import { create } from '@bufbuild/protobuf';
import type { WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Worker, WorkerSchema, WorkerState } from '../../../gen/assay/v1/worker_pb.js';
import type { Broker } from '../../shared/store/broker.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import type { WorkerStore } from '../../shared/store/worker-store.ts';

export interface KnownWorker {
  readonly record: WorkerRecord;
  /** Whether its registration was refreshed lately, as far as this process could see. */
  readonly reachable: boolean;
  /** Whether it did not answer a call of this process since its last refresh. */
  readonly suspect: boolean;
  /** Why this process cannot connect to the address of the registration. Undefined: it can, or has not tried yet. */
  readonly connectFailure: string | undefined;
}

/** As the metrics name it. */
export type WorkerStateName = 'reachable' | 'unreachable' | 'silent' | 'draining';

export function workerState({ record, reachable, connectFailure }: KnownWorker): WorkerStateName {
  if (!reachable) return 'silent';
  if (connectFailure !== undefined) return 'unreachable';
  return takesSessions(record) ? 'reachable' : 'draining';
}

/** Whether it neither stops nor is drained by the operator. */
export function takesSessions({ draining, drained }: WorkerRecord): boolean {
  return !draining && !drained;
}

const workerStates: Readonly<Record<WorkerStateName, WorkerState>> = {
  reachable: WorkerState.READY,
  unreachable: WorkerState.UNREACHABLE,
  silent: WorkerState.SILENT,
  draining: WorkerState.STOPPING,
};

/** A worker as the API tells it. */
export function workerView(worker: KnownWorker): Worker {
  const { record } = worker;
  const state = workerStates[workerState(worker)];
  return create(WorkerSchema, {
    workerId: record.workerId,
    state: state === WorkerState.STOPPING && !record.draining ? WorkerState.DRAINED : state,
    drained: record.drained,
    sessionCount: record.sessions,
    sessionCapacity: record.capacity,
    warmCount: record.warm,
    warmCapacity: record.warmCapacity,
    capabilities: record.capabilities,
    pressure: record.pressure,
  });
}

/** A worker as the store has it at this moment. */
export interface StoredWorker extends KnownWorker {
  readonly revision: bigint | number;
}

/** The workers, through their registrations. */
export interface WorkerDirectory {
  find(workerId: string): Promise<KnownWorker | undefined>;
  /** From memory only: undefined where this process has not seen the worker yet. */
  peek(workerId: string): KnownWorker | undefined;
  /** From the store; a renewal that this process had not seen counts from now. */
  fresh(workerId: string): Promise<StoredWorker | undefined>;
  /** Writes the registration if it is still at `revision`; false: somebody else wrote. */
  replace(record: WorkerRecord, revision: bigint | number): Promise<boolean>;
  /** Notes that the worker did not answer: until its next refresh it is suspect. */
  missed(workerId: string): void;
  /** Notes whether this process could connect to the address of this registration: `failure` says why not. */
  probed(record: WorkerRecord, failure: string | undefined): void;
  /** Those that were not forgotten. */
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
  /** The revision of the registration with which a worker did not answer. */
  const missed = new Map<string, number>();
  /** What came of the last attempt to connect to an address that a worker gave, where it failed. */
  const failures = new Map<string, { readonly address: string; readonly failure: string }>();
  deps.broker.onConnectionChange((connected) => {
    if (connected) listeningSinceMs = now();
    lostAtMs = connected ? undefined : now();
  });
  const peek = (workerId: string): KnownWorker | undefined => {
    const seen = view.get(workerId);
    if (seen === undefined) return undefined;
    const tried = failures.get(workerId);
    const silenceMs = (lostAtMs ?? now()) - Math.max(seen.seenAtMs, listeningSinceMs);
    return {
      record: seen.value,
      reachable: silenceMs <= silentAfterMs && !seen.value.forgotten,
      suspect: missed.get(workerId) === seen.revision,
      connectFailure: tried?.address === seen.value.address ? tried.failure : undefined,
    };
  };
  const fresh = async (workerId: string): Promise<StoredWorker | undefined> => {
    const stored = await workers.get(workerId);
    if (stored === undefined) return undefined;
    view.note(workerId, stored);
    const { reachable = false, suspect = false, connectFailure } = peek(workerId) ?? {};
    return { record: stored.value, revision: stored.revision, reachable, suspect, connectFailure };
  };
  return {
    peek,
    fresh,
    find: async (workerId) => peek(workerId) ?? fresh(workerId),
    async replace(record, revision) {
      const stored = await workers.put(record, revision);
      if (stored !== undefined) view.note(record.workerId, stored);
      return stored !== undefined;
    },
    missed(workerId) {
      const seen = view.get(workerId);
      if (seen !== undefined) missed.set(workerId, seen.revision);
    },
    probed({ workerId, address }, failure) {
      if (failure === undefined) failures.delete(workerId);
      else failures.set(workerId, { address, failure });
    },
    all: () =>
      [...view.entries()]
        .map(([workerId]) => peek(workerId))
        .filter((worker) => worker !== undefined)
        .filter(({ record }) => !record.forgotten),
  };
}
