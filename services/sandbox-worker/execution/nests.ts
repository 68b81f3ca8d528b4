import type { ContainerCgroups, NestCgroup } from '../cgroup/execution-cgroup.ts';
import type { FailureBoundary } from '../failure-boundary.ts';
import { nest as openNest, prepare, unnest } from '../guest/frame.ts';

/** How many a quiet sandbox keeps, and how many a busy one may have; the guest has room for as many. */
const kept = 2;
const most = 32;
/** How long more than that are kept after the last command. */
const idleMs = 5_000;
/** What a START can name. */
const highestNumber = 65_535;

/** A place where executions happen one after another: a cgroup, the guest's process that stays in it, and one that waits. */
export interface Nest {
  readonly number: number;
  readonly cgroup: NestCgroup;
}

interface KeptNest extends Nest {
  /** Its process is in its cgroup. */
  placed: boolean;
  /** A process waits in it for a command. */
  ready: boolean;
  /** An execution has it. */
  taken: boolean;
}

/** Keeps processes ready in a sandbox, so that a command waits for no fork and nothing is moved between cgroups for it. */
export interface Nests {
  /** One with a process that waits, if there is one. */
  take(): Nest | undefined;
  /** The execution in it has ended. Ready for the next one, or given up; then `cgroup.remove` is the caller's. */
  giveBack(nest: Nest): 'kept' | 'held' | 'gone';
  /** What the guest says of it: its process, and the one that waits; 0 for none. */
  nested(number: number, pid: number, sparePid: number): void;
  /** Makes what is missing, off the present path. */
  make(): void;
  /** The connection is gone: the guest drops them when it returns. */
  drop(): void;
}

export function createNests(
  cgroups: () => ContainerCgroups | undefined,
  send: (frame: Buffer) => void,
  abandoned: (cgroup: NestCgroup) => void,
  boundary: FailureBoundary,
): Nests {
  const nests = new Map<number, KeptNest>();
  let last = 0;
  let wanted = kept;
  let filling = false;
  let connected = false;
  let idle: NodeJS.Timeout | undefined;

  function fill(): void {
    filling = false;
    const container = cgroups();
    if (!connected || container === undefined) return;
    last = Math.max(last, container.lastNest);
    while (nests.size < wanted && last < highestNumber) {
      const number = ++last;
      const cgroup = container.nest(number);
      if (cgroup === undefined) return;
      nests.set(number, { number, cgroup, placed: false, ready: false, taken: false });
      send(openNest(number));
    }
  }

  function fillSoon(): void {
    if (filling || !connected || nests.size >= wanted) return;
    filling = true;
    setImmediate(boundary.guard(fill));
  }

  function close(nest: KeptNest): void {
    nests.delete(nest.number);
    send(unnest(nest.number));
    nest.cgroup.abandon();
    if (!nest.taken) abandoned(nest.cgroup);
  }

  async function place(nest: KeptNest, pid: number): Promise<void> {
    nest.placed = true;
    if (await nest.cgroup.place(pid)) send(prepare(nest.number));
    else if (nests.get(nest.number) === nest) close(nest);
  }

  /** After a busy time most of them would only take up memory. */
  function rest(): void {
    idle = undefined;
    wanted = kept;
    for (const nest of nests.values()) if (nests.size > kept && !nest.taken) close(nest);
  }

  return {
    take() {
      idle?.refresh();
      for (const nest of nests.values()) {
        if (!nest.ready || nest.taken) continue;
        nest.taken = true;
        nest.ready = false;
        return nest;
      }
      if (wanted < most) {
        wanted++;
        idle ??= setTimeout(boundary.guard(rest), idleMs).unref();
      }
      fillSoon();
      return undefined;
    },
    giveBack({ number, cgroup }) {
      const nest = nests.get(number);
      if (nest?.cgroup !== cgroup) return 'gone';
      if (cgroup.renew()) {
        nest.taken = false;
        send(prepare(number));
        return 'kept';
      }
      if (cgroup.populated()) return 'held';
      close(nest);
      fillSoon();
      return 'gone';
    },
    nested(number, pid, sparePid) {
      const nest = nests.get(number);
      if (nest === undefined) return;
      // Not made again at once: whoever kills them in a loop must not keep the worker busy.
      if (pid === 0 || (nest.ready && sparePid === 0)) return close(nest);
      if (!nest.placed) boundary.own(place(nest, pid));
      nest.ready = sparePid > 0;
    },
    make() {
      connected = true;
      fillSoon();
    },
    drop() {
      connected = false;
      for (const nest of nests.values()) {
        nest.cgroup.abandon();
        if (!nest.taken) abandoned(nest.cgroup);
      }
      nests.clear();
    },
  };
}
