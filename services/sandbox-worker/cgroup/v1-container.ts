import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type ContainerProcess, cgroupPaths, ownPath } from './container-process.ts';
import { v1Processors } from './container-processors.ts';
import type { ContainerCgroups } from './execution-cgroup.ts';
import type { Placer } from './placer.ts';
import { createV1Execution, type Directories } from './v1-execution.ts';
import { createV1Nest } from './v1-nest.ts';

export const v1Hierarchies = ['memory', 'freezer', 'cpuacct'] as const;

const nestPrefix = 'assay-nest-';

function nestNumber(name: string): number {
  return name.startsWith(nestPrefix) ? Number(name.slice(nestPrefix.length)) || 0 : 0;
}

/**
 * cgroup v1: one child in the hierarchies that account, and one in the freezer when a kill needs it. Each costs every
 * command, and few commands are killed.
 */
export function openV1Container(container: ContainerProcess, placer: Placer): ContainerCgroups {
  const paths = cgroupPaths(container);
  const below = (name: string) => join(container.root, name, ownPath(paths, name));
  const parent: Directories = { memory: below('memory'), freezer: below('freezer'), cpuacct: below('cpuacct') };
  const cpu = paths.has('cpu') ? below('cpu') : undefined;
  const named = (name: string): Directories => ({
    memory: join(parent.memory, name),
    freezer: join(parent.freezer, name),
    cpuacct: join(parent.cpuacct, name),
  });
  const child = (number: bigint): Directories => named(`assay-${number}`);
  const nest = (number: number): Directories => named(`${nestPrefix}${number}`);
  return {
    execution(number) {
      return createV1Execution(container, child(number), placer);
    },
    processors: cpu === undefined ? undefined : v1Processors(cpu, parent.cpuacct),
    nest: (number) => createV1Nest(container, nest(number), placer),
    lastNest: readdirSync(parent.memory).reduce((last, name) => Math.max(last, nestNumber(name)), 0),
    existing(number, nested) {
      const directories = nested > 0 ? nest(nested) : child(number);
      return existsSync(directories.memory) ? createV1Execution(container, directories, placer) : undefined;
    },
  };
}
