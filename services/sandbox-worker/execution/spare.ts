import type { ExecutionCgroup } from '../cgroup/execution-cgroup.ts';
import { go, prepare } from '../guest/frame.ts';
import type { ExecutionHost } from './execution.ts';

/** Made two at a time, which costs the guest and the cgroup thread one waking up for both. */
const kept = 4;
const low = 2;
/** How long after a start the next process is prepared, if the program has not ended before. */
const afterStartMs = 10;

/** A process that waits for its command, in the cgroup of the execution it will be. */
export interface Spare {
  readonly cgroup: ExecutionCgroup | undefined;
  /** Whether placing the process in the cgroup is over. */
  placed: boolean;
  /** Whether its command was sent; if it is not in its cgroup by then, it may go once it is. */
  taken: boolean;
}

/** Keeps processes ready in a sandbox, so that the next command waits for no fork, no cgroup and no round trip for them. */
export interface Spares {
  /** The process that was made for this number, if one was. More are made when the program ends, or shortly after. */
  take(number: bigint): Spare | undefined;
  /** The guest made the process. False: the number is no spare's. */
  spawned(number: bigint, pid: number): boolean;
  /** Makes what is missing, off the present path. */
  make(): void;
  /** The connection is gone: the guest drops them when it returns. */
  drop(): void;
}

export function createSpares(next: () => bigint, host: Pick<ExecutionHost, 'cgroups' | 'send' | 'unplaced'>): Spares {
  const { cgroups, send } = host;
  const spares = new Map<bigint, Spare>();
  let timer: NodeJS.Timeout | undefined;
  let connected = false;

  function fill(): void {
    clearTimeout(timer);
    timer = undefined;
    if (!connected) return;
    const first = next();
    for (let number = first; number < first + BigInt(kept); number++) {
      if (spares.has(number)) continue;
      spares.set(number, { cgroup: cgroups()?.execution(number), placed: false, taken: false });
      send(prepare(number));
    }
  }

  async function place(number: bigint, spare: Spare, pid: number): Promise<void> {
    // One that cannot be placed may go all the same: the guest accounts for it and finds it for a kill.
    const placed = spare.cgroup === undefined || (await spare.cgroup.place(pid));
    if (!placed && connected) host.unplaced(number);
    spare.placed = true;
    if (spare.taken) send(go(number));
  }

  return {
    take(number) {
      const spare = spares.get(number);
      spares.delete(number);
      if (spare !== undefined) spare.taken = true;
      timer ??= setTimeout(fill, afterStartMs).unref();
      return spare;
    },
    spawned(number, pid) {
      const spare = spares.get(number);
      if (spare !== undefined) void place(number, spare, pid);
      return spare !== undefined;
    },
    make() {
      connected = true;
      if (spares.size <= low) setImmediate(fill);
    },
    drop() {
      spares.clear();
      connected = false;
    },
  };
}
