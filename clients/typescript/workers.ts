import { createClient, type Transport } from '@connectrpc/connect';
import { type Worker as WireWorker, WorkerService, WorkerState } from '../../gen/assay/v1/worker_pb.js';
import { type Caller, present } from './caller.ts';

/** Whether a worker can be given sessions, as the server names it. */
export type WorkerStateName = Exclude<keyof typeof WorkerState, 'UNSPECIFIED'>;

export interface WorkerInfo {
  readonly id: string;
  readonly state: WorkerStateName;
  /** Whether an operator has taken it out of service, whatever its state is now. */
  readonly drained: boolean;
  readonly sessionCount: number;
  readonly sessionCapacity: number;
  /** Sandboxes that wait in its warm pool, and how many when it is full. */
  readonly warmCount: number;
  readonly warmCapacity: number;
  readonly capabilities: readonly string[];
  /** Why it takes no new work now. Empty: it does. */
  readonly pressure: string;
}

/** The processes that own the sandboxes, one on each host. */
export interface Workers {
  /** By id, also those that do not answer. */
  list(): AsyncIterable<WorkerInfo>;
  get(id: string): Promise<WorkerInfo>;
  /** Has it take no new sessions until `undrain`; those it has live on. Needs an admin key of the operator's project. */
  drain(id: string): Promise<WorkerInfo>;
  undrain(id: string): Promise<WorkerInfo>;
  /** Gives up a worker that is gone for good: its sessions are LOST. Needs an admin key of the operator's project. */
  forget(id: string): Promise<{ readonly lostSessionCount: number }>;
}

export function createWorkers(transport: Transport, caller: Caller): Workers {
  const rpc = createClient(WorkerService, transport);
  const learn = async (call: () => Promise<{ worker?: WireWorker | undefined }>): Promise<WorkerInfo> =>
    toWorkerInfo(present((await caller.repeatable(call)).worker, 'the worker'));
  return {
    async *list() {
      let pageToken = '';
      do {
        const page = await caller.repeatable(() => rpc.listWorkers({ pageToken }));
        yield* page.workers.map(toWorkerInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
    get: (workerId) => learn(() => rpc.getWorker({ workerId })),
    drain: (workerId) => learn(() => rpc.drainWorker({ workerId })),
    undrain: (workerId) => learn(() => rpc.drainWorker({ workerId, undo: true })),
    async forget(workerId) {
      const { lostSessionCount } = await caller.repeatable(() => rpc.forgetWorker({ workerId }));
      return { lostSessionCount };
    },
  };
}

function toWorkerInfo({ $typeName: _, $unknown: __, workerId: id, state, ...rest }: WireWorker): WorkerInfo {
  return { id, state: WorkerState[state] as WorkerStateName, ...rest };
}
