import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '../../shared/log.ts';
import type { ExecutionCgroups } from './execution-cgroup.ts';
import { createPlacer } from './placer.ts';
import { openV1Container, v1Hierarchies } from './v1-container.ts';
import { openV2Container } from './v2-container.ts';

export interface CgroupDeps {
  readonly log: Logger;
  /** /sys/fs/cgroup unless told. */
  readonly root?: string;
  /** /proc unless told. */
  readonly proc?: string;
}

/** Finds out once which cgroups this host has and whether this process may write them. */
export function createExecutionCgroups({ log, root = '/sys/fs/cgroup', proc = '/proc' }: CgroupDeps): ExecutionCgroups {
  const kind = detect(root);
  if (kind === 'none') {
    log.warn({ root }, 'cgroups cannot be written: executions are accounted and killed by the guest alone');
    return { kind, container: () => undefined };
  }
  const placer = createPlacer();
  const open = kind === 'v1' ? openV1Container : openV2Container;
  return {
    kind,
    container(initPid) {
      try {
        return open({ root, proc, initPid }, placer);
      } catch (error) {
        log.warn({ pid: initPid, reason: (error as Error).message }, 'the cgroup of a container cannot be used');
        return undefined;
      }
    },
  };
}

function detect(root: string): 'v1' | 'v2' | 'none' {
  if (existsSync(join(root, 'cgroup.controllers'))) return isWritable(root) ? 'v2' : 'none';
  return v1Hierarchies.every((name) => isWritable(join(root, name))) ? 'v1' : 'none';
}

/** Asks the kernel, which also knows of read-only mounts. */
function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
