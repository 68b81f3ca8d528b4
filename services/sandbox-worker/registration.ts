import { create } from '@bufbuild/protobuf';
import { type WorkerRecord, WorkerRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import type { Logger } from '../shared/log.ts';
import type { Stored } from '../shared/store/session-store.ts';
import type { WorkerStore } from '../shared/store/worker-store.ts';
import { forgotten } from './forgotten.ts';

const heartbeatMs = 2_000;

export interface RegistrationDeps {
  readonly store: WorkerStore;
  readonly workerId: string;
  readonly address: string;
  readonly capacity: number;
  readonly capabilities: readonly string[];
  /** How many sandboxes there are now. */
  readonly load: () => number;
  /** How many sandboxes wait in the warm pool, and how many when it is full. */
  readonly warm: { readonly size: number; readonly capacity: number };
  /** Why it takes no new work. Undefined: it does. */
  readonly pressure: () => string | undefined;
  /** What its host is short of, so that sessions may be refused: a sentence for each. */
  readonly shortages: () => readonly string[];
  /** What is wrong with its engine. Undefined: the engine answers. */
  readonly engineProblem: () => string | undefined;
  /** Called once: another process has this worker's id, or the operator has forgotten it; the records are not its own any more. */
  readonly replaced: (by: WorkerRecord) => void;
  readonly log: Logger;
}

/** The worker's entry in the store: where it is, and that it lives. */
export interface Registration {
  /** Says that no new sessions are taken. */
  drain(): Promise<void>;
  /** Says how things are now, before it is due. */
  renew(): void;
  stop(): void;
}

/** Registers with an epoch above every earlier one and says so every few seconds. */
export async function register(deps: RegistrationDeps): Promise<Registration> {
  const { store, workerId, log } = deps;
  let draining = false;
  /** The operator's wish, which is not this process's to change. */
  let drained = false;
  let replaced = false;
  let epoch = 0n;
  let stored: Stored<WorkerRecord> | undefined;

  function record(): WorkerRecord {
    const { address, capacity, capabilities, load, warm, pressure, shortages, engineProblem } = deps;
    return create(WorkerRecordSchema, {
      workerId,
      epoch,
      address,
      capacity,
      sessions: load(),
      capabilities: [...capabilities],
      draining,
      warm: warm.size,
      warmCapacity: warm.capacity,
      pressure: pressure() ?? '',
      shortages: [...shortages()],
      engineProblem: engineProblem() ?? '',
      drained,
    });
  }

  /** Takes the next epoch; somebody else may be taking it at the same time. */
  async function takeOver(): Promise<void> {
    while (stored === undefined) {
      const current = await store.get(workerId);
      if (current?.value.forgotten === true)
        throw forgotten(workerId, 'start it again to have removed what it has here');
      epoch = (current?.value.epoch ?? 0n) + 1n;
      drained = current?.value.drained === true;
      stored = await store.put(record(), current?.revision ?? 0);
    }
  }

  async function beat(): Promise<void> {
    if (replaced) return;
    const next = await store.put(record(), stored?.revision ?? 0);
    if (next !== undefined) {
      stored = next;
      return;
    }
    const current = await store.get(workerId);
    if (current !== undefined && current.value.epoch > epoch) {
      replaced = true;
      clearInterval(timer);
      deps.replaced(current.value);
      return;
    }
    // Our own write was answered late, the operator has written, or the entry was lost: go on from what is there.
    stored = current;
    if (current !== undefined) drained = current.value.drained;
  }

  let beating: Promise<void> = takeOver();
  await beating;
  const again = () => {
    beating = beating.then(beat).catch((error) => log.warn({ err: error }, 'the registration could not be renewed'));
    return beating;
  };
  const timer = setInterval(() => void again(), heartbeatMs);

  return {
    drain() {
      draining = true;
      return again();
    },
    renew: () => void again(),
    stop: () => clearInterval(timer),
  };
}
