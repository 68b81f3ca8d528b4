import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ContainerProcess, cgroupPaths, ownPath } from './container-process.ts';
import { v2Processors } from './container-processors.ts';
import { makeCgroup, readField, readNumber, readPids, writeControl } from './control-file.ts';
import type { ContainerCgroups, ExecutionCgroup } from './execution-cgroup.ts';
import type { Placer } from './placer.ts';
import { signalCgroup } from './signal-cgroup.ts';

/** Where the guest lives: v2 gives controllers to children only while the parent itself holds no process. */
const leaf = 'assay-init';
const controllers = ['memory', 'cpu', 'pids'];
const moveRounds = 32;
const freezeLooks = 200;
const sigkill = 9;

/** cgroup v2: one child directory. */
export function openV2Container(container: ContainerProcess, placer: Placer): ContainerCgroups {
  const path = ownPath(cgroupPaths(container), '');
  // After the move PID 1 is in the leaf, and the container's cgroup is the one above.
  const own = path.endsWith(`/${leaf}`) ? path.slice(0, -leaf.length - 1) : path;
  ownPath(new Map([['', own || '/']]), '');
  const parent = join(container.root, own);
  delegate(parent);
  const child = (number: bigint): string => join(parent, `assay-${number}`);
  return {
    execution: (number) => createV2Execution(container, child(number), placer),
    processors: v2Processors(parent),
    // Neither the CPU time nor, before Linux 6.12, the peak of a v2 cgroup can be set back.
    nest: () => undefined,
    lastNest: 0,
    existing(number) {
      return existsSync(child(number)) ? createV2Execution(container, child(number), placer) : undefined;
    },
  };
}

/** Moves every process to the leaf, then lets children have controllers. A fork between two looks is caught by the next. */
function delegate(parent: string): void {
  const procs = join(parent, 'cgroup.procs');
  if (!makeCgroup(join(parent, leaf))) throw new Error(`${join(parent, leaf)} cannot be made`);
  for (let round = 0; round < moveRounds; round += 1) {
    const pids = readPids(procs);
    if (pids.length === 0) break;
    for (const pid of pids) writeControl(join(parent, leaf, 'cgroup.procs'), String(pid));
  }
  // One at a time: a controller that this host lacks must not take the others with it.
  const enabled = controllers.map((name) => writeControl(join(parent, 'cgroup.subtree_control'), `+${name}`));
  if (!enabled[0]) throw new Error(`the memory controller cannot be enabled below ${parent}`);
}

function createV2Execution(container: ContainerProcess, directory: string, placer: Placer): ExecutionCgroup {
  const pids = (): number[] => readPids(join(directory, 'cgroup.procs'));
  const freezer = join(directory, 'cgroup.freeze');
  const events = join(directory, 'cgroup.events');
  return {
    place: async (namespacePid) => (await placer.place(container, [directory], namespacePid)) !== undefined,
    kill(signal) {
      if (signal === sigkill) {
        const found = pids().length;
        // The kernel kills the whole tree against any fork; kernels before 5.14 lack it.
        if (writeControl(join(directory, 'cgroup.kill'), '1')) return found;
      }
      return signalCgroup(
        { freeze: () => freeze(freezer, events), thaw: () => void writeControl(freezer, '0'), pids },
        signal,
      );
    },
    usage: () => ({
      cpuMicros: readField(join(directory, 'cpu.stat'), 'usage_usec'),
      // Absent before Linux 5.19: then 0, and the guest's own figure stands.
      peakMemoryBytes: readNumber(join(directory, 'memory.peak')),
      oomKills: readField(join(directory, 'memory.events'), 'oom_kill'),
    }),
    // A peak can be reset for one reader only, and only since Linux 6.12: it stays that of the whole life.
    resetPeak() {},
    release() {},
    pids,
    populated: () => readField(events, 'populated') > 0,
    remove: () => placer.remove([directory]),
  };
}

function freeze(freezer: string, events: string): boolean {
  if (!writeControl(freezer, '1')) return false;
  for (let look = 0; look < freezeLooks; look += 1) {
    if (readField(events, 'frozen') === 1) return true;
  }
  return false;
}
