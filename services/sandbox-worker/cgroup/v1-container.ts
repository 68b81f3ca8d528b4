import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ContainerProcess, cgroupPaths, findChild, ownPath } from './container-process.ts';
import {
  makeCgroup,
  moveProcess,
  readControl,
  readField,
  readNumber,
  readPids,
  removeCgroup,
  writeControl,
} from './control-file.ts';
import type { ContainerCgroups, ExecutionCgroup } from './execution-cgroup.ts';
import { signalFrozen } from './frozen-signal.ts';

export const v1Hierarchies = ['memory', 'freezer', 'cpuacct'] as const;

/** How often the freezer is looked at before it is taken for stuck; each look is some microseconds. */
const freezeLooks = 200;

interface Directories {
  readonly memory: string;
  readonly freezer: string;
  readonly cpuacct: string;
}

/** cgroup v1: one child in each of three hierarchies. */
export function openV1Container(container: ContainerProcess): ContainerCgroups {
  const paths = cgroupPaths(container);
  const below = (name: string) => join(container.root, name, ownPath(paths, name));
  const parent: Directories = { memory: below('memory'), freezer: below('freezer'), cpuacct: below('cpuacct') };
  const child = (number: bigint): Directories => ({
    memory: join(parent.memory, `assay-${number}`),
    freezer: join(parent.freezer, `assay-${number}`),
    cpuacct: join(parent.cpuacct, `assay-${number}`),
  });
  return {
    execution(number) {
      const directories = child(number);
      for (const name of v1Hierarchies) makeCgroup(directories[name]);
      return createV1Execution(container, directories);
    },
    existing(number) {
      const directories = child(number);
      return existsSync(directories.freezer) ? createV1Execution(container, directories) : undefined;
    },
  };
}

function createV1Execution(container: ContainerProcess, { memory, freezer, cpuacct }: Directories): ExecutionCgroup {
  const state = join(freezer, 'freezer.state');
  const pids = (): number[] => readPids(join(freezer, 'cgroup.procs'));
  return {
    async place(namespacePid) {
      const pid = findChild(container, namespacePid);
      if (pid === undefined) return false;
      // The freezer comes last: a process in it is counted by the other two.
      for (const directory of [memory, cpuacct, freezer]) {
        if (!(await moveProcess(directory, pid))) return false;
      }
      return true;
    },
    kill: (signal) =>
      signalFrozen({ freeze: () => freeze(state), thaw: () => void writeControl(state, 'THAWED'), pids }, signal),
    usage: () => ({
      cpuMicros: Math.round(readNumber(join(cpuacct, 'cpuacct.usage')) / 1000),
      peakMemoryBytes: readNumber(join(memory, 'memory.max_usage_in_bytes')),
      oomKills: readField(join(memory, 'memory.oom_control'), 'oom_kill'),
    }),
    populated: () => pids().length > 0,
    remove() {
      // Looked at first, so that a busy one keeps all three and can still be accounted and killed.
      if (pids().length > 0) return false;
      return [memory, cpuacct, freezer].map(removeCgroup).every(Boolean);
    },
  };
}

function freeze(state: string): boolean {
  if (!writeControl(state, 'FROZEN')) return false;
  for (let look = 0; look < freezeLooks; look += 1) {
    if (readControl(state).startsWith('FROZEN')) return true;
  }
  return false;
}
