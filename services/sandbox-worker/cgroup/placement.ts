import { join } from 'node:path';
import { type ContainerProcess, findChild } from './container-process.ts';
import { makeCgroup, removeCgroup, writeControl } from './control-file.ts';

/** Makes the cgroups of an execution and moves its waiting child in. The child's pid here, or undefined where it or the container is gone. */
export function placeChild(
  container: ContainerProcess,
  directories: readonly string[],
  namespacePid: number,
): number | undefined {
  if (!directories.every(makeCgroup)) return undefined;
  const pid = findChild(container, namespacePid);
  if (pid === undefined) return undefined;
  const moved = directories.every((directory) => writeControl(join(directory, 'cgroup.procs'), String(pid)));
  return moved ? pid : undefined;
}

/** Removes the cgroups of an execution; false while they hold processes. */
export function removeCgroups(directories: readonly string[]): boolean {
  return directories.map(removeCgroup).every(Boolean);
}
