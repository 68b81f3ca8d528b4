import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cgroupPaths, ownPath } from './container-process.ts';
import { readField, readNumber } from './control-file.ts';
import type { ExecutionUsage } from './execution-cgroup.ts';

export interface ContainerUsagePlaces {
  readonly root?: string;
  readonly proc?: string;
}

/**
 * A way to ask what a whole container has used so far, whose processes are in no cgroups below its own. It must be opened
 * while the container runs; undefined where its cgroup cannot be found.
 */
export function openContainerUsage(
  initPid: number,
  { root = '/sys/fs/cgroup', proc = '/proc' }: ContainerUsagePlaces = {},
): (() => ExecutionUsage) | undefined {
  try {
    const paths = cgroupPaths({ root, proc, initPid });
    if (existsSync(join(root, 'cgroup.controllers'))) return v2Usage(join(root, ownPath(paths, '')));
    const below = (name: string) => join(root, name, ownPath(paths, name));
    return v1Usage(below('memory'), below('cpuacct'));
  } catch {
    return undefined;
  }
}

/** How many processes of a container the kernel has killed for memory so far; undefined where nobody can tell. */
export type MemoryKills = () => number | undefined;

/** For containers whose executions have no cgroups of their own: what is the container's may be read by anybody. */
export function openMemoryKills(initPid: number, places: ContainerUsagePlaces = {}): MemoryKills {
  const usage = openContainerUsage(initPid, places);
  return () => {
    try {
      return usage?.().oomKills;
    } catch {
      // The container is gone.
      return undefined;
    }
  };
}

function v1Usage(memory: string, cpuacct: string): () => ExecutionUsage {
  return () => ({
    cpuMicros: Math.round(readNumber(join(cpuacct, 'cpuacct.usage')) / 1_000),
    peakMemoryBytes: readNumber(join(memory, 'memory.max_usage_in_bytes')),
    oomKills: readField(join(memory, 'memory.oom_control'), 'oom_kill'),
  });
}

function v2Usage(directory: string): () => ExecutionUsage {
  return () => ({
    cpuMicros: readField(join(directory, 'cpu.stat'), 'usage_usec'),
    peakMemoryBytes: readNumber(join(directory, 'memory.peak')),
    oomKills: readField(join(directory, 'memory.events'), 'oom_kill'),
  });
}
