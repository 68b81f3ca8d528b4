import { readFileSync } from 'node:fs';

/** A container, known by its PID 1 as this process sees it. */
export interface ContainerProcess {
  /** Where cgroups are mounted. */
  readonly root: string;
  /** Where proc is mounted. */
  readonly proc: string;
  readonly initPid: number;
}

/** The lines of /proc/<pid>/cgroup as controller → path; the unified hierarchy is under ''. */
export function cgroupPaths({ proc, initPid }: ContainerProcess): ReadonlyMap<string, string> {
  const paths = new Map<string, string>();
  for (const line of readFileSync(`${proc}/${initPid}/cgroup`, 'utf8').split('\n')) {
    const [, controllers, ...rest] = line.split(':');
    const path = rest.join(':');
    if (controllers === undefined || path === '') continue;
    for (const controller of controllers.split(',')) paths.set(controller, path);
  }
  return paths;
}

/** Refuses the root, where a mistake would reach the whole machine, and paths outside of what is mounted here. */
export function ownPath(paths: ReadonlyMap<string, string>, controller: string): string {
  const path = paths.get(controller);
  if (path === undefined || path === '/' || !path.startsWith('/') || path.split('/').includes('..')) {
    throw new Error(`its ${controller || 'unified'} cgroup is ${path ?? 'absent'}; expected one of its own`);
  }
  return path;
}

/**
 * The host's pid of a child of PID 1 that the container knows as `namespacePid`. The newest child is the likeliest, so
 * the search begins at the end.
 */
export function findChild({ proc, initPid }: ContainerProcess, namespacePid: number): number | undefined {
  let children: string;
  try {
    children = readFileSync(`${proc}/${initPid}/task/${initPid}/children`, 'utf8');
  } catch {
    return undefined;
  }
  const pids = children.trim().split(' ');
  for (let index = pids.length - 1; index >= 0; index -= 1) {
    const pid = Number(pids[index]);
    if (pid > 1 && innermostPid(proc, pid) === namespacePid) return pid;
  }
  return undefined;
}

/** The pid in the innermost namespace: the last field of NSpid. */
function innermostPid(proc: string, pid: number): number | undefined {
  try {
    const fields = /^NSpid:\t(.*)$/m.exec(readFileSync(`${proc}/${pid}/status`, 'latin1'))?.[1];
    return fields === undefined ? undefined : Number(fields.slice(fields.lastIndexOf('\t') + 1));
  } catch {
    return undefined;
  }
}
