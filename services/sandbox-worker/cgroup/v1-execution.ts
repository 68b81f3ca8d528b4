import { join } from 'node:path';
import type { ContainerProcess } from './container-process.ts';
import { makeCgroup, readControl, readPids, writeControl } from './control-file.ts';
import type { ExecutionCgroup } from './execution-cgroup.ts';
import type { Placer } from './placer.ts';
import { signalCgroup } from './signal-cgroup.ts';
import { createV1Counters } from './v1-counters.ts';

/** How often the freezer is looked at before it is taken for stuck; each look is some microseconds. */
const freezeLooks = 200;
const gatherRounds = 16;

/** Where an execution is in each hierarchy. */
export interface Directories {
  readonly memory: string;
  readonly freezer: string;
  readonly cpuacct: string;
}

export function createV1Execution(
  container: ContainerProcess,
  { memory, freezer, cpuacct }: Directories,
  placer: Placer,
  pids = (): number[] => readPids(join(memory, 'cgroup.procs')),
): ExecutionCgroup {
  // The memory comes last, since it says who belongs to the execution: a process in it is counted by the other too.
  const directories = [cpuacct, memory];
  const state = join(freezer, 'freezer.state');
  const counters = createV1Counters(memory, cpuacct);
  return {
    place: async (namespacePid) => (await placer.place(container, directories, namespacePid)) !== undefined,
    kill: (signal) =>
      signalCgroup(
        { freeze: () => gather(freezer, pids) && freeze(state), thaw: () => void writeControl(state, 'THAWED'), pids },
        signal,
      ),
    usage: () => counters.read(),
    resetPeak: () => counters.resetPeak(),
    release: () => counters.release(),
    pids,
    populated: () => pids().length > 0,
    // Looked at first, so that a busy one keeps all and can still be accounted and killed.
    async remove() {
      if (pids().length > 0 || !(await placer.remove([...directories, freezer]))) return false;
      counters.release();
      return true;
    },
  };
}

/** Brings every process of the execution into the freezer. What they fork there is born there, so a few rounds find all. */
function gather(freezer: string, pids: () => number[]): boolean {
  if (!makeCgroup(freezer)) return false;
  const procs = join(freezer, 'cgroup.procs');
  for (let round = 0; round < gatherRounds; round += 1) {
    const inside = new Set(readPids(procs));
    const outside = pids().filter((pid) => !inside.has(pid));
    if (outside.length === 0) return true;
    for (const pid of outside) writeControl(procs, String(pid));
  }
  return false;
}

function freeze(state: string): boolean {
  if (!writeControl(state, 'FROZEN')) return false;
  for (let look = 0; look < freezeLooks; look += 1) {
    if (readControl(state).startsWith('FROZEN')) return true;
  }
  return false;
}
