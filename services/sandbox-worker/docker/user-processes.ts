import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const passes = 20;
const passMs = 5;
const goneMs = 5_000;

/**
 * Ends every process of the users in a container that `isTheirs` names by their host ids, and none of another. `whileStill` is asked for where they are made faster than
 * they can be ended: what stands still makes no more. Throws where some are left.
 */
export async function killUsers(
  containerPid: number,
  isTheirs: (hostId: number) => boolean,
  whileStill: (work: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const kill = (): boolean => {
    const found = processesOf(containerPid, isTheirs);
    for (const pid of found) signal(pid);
    return found.length > 0;
  };
  for (let pass = 0; pass < passes; pass += 1) {
    if (!kill()) return;
    await delay(passMs);
  }
  await whileStill(async () => void kill());
  for (const until = performance.now() + goneMs; performance.now() < until; await delay(passMs)) if (!kill()) return;
  throw new Error('processes of a user cannot be ended');
}

/** The processes of users in the pid namespace of a container's first process, as this host numbers them. */
export function processesOf(containerPid: number, isTheirs: (hostId: number) => boolean): number[] {
  const namespace = namespaceOf(containerPid);
  if (namespace === undefined) return [];
  return liveProcesses(isTheirs).filter((pid) => namespaceOf(pid) === namespace);
}

/** The pid namespaces in which the users have processes. One look at all processes of the host, however many containers there are. */
export function namespacesOfUsers(isTheirs: (hostId: number) => boolean): ReadonlySet<string> {
  return new Set(liveProcesses(isTheirs).flatMap((pid) => namespaceOf(pid) ?? []));
}

function liveProcesses(isTheirs: (hostId: number) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isLiveOf(pid, isTheirs));
}

export function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}

/** The status and not the owner of the directory, which is root's for what cannot be dumped. */
function isLiveOf(pid: number, isTheirs: (hostId: number) => boolean): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const ids = /^Uid:\s+(.*)$/m.exec(status)?.[1]?.split(/\s+/).map(Number) ?? [];
    return !/^State:\s+[ZX]/m.test(status) && ids.some(isTheirs);
  } catch {
    return false;
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
