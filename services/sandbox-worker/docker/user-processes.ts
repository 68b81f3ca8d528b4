import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const passes = 20;
const passMs = 5;
const goneMs = 5_000;

/**
 * Ends every process of a user in a container, and none of another. `whileStill` is asked for where they are made faster than
 * they can be ended: what stands still makes no more. Throws where some are left.
 */
export async function killUser(
  containerPid: number,
  uid: number,
  whileStill: (work: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const kill = (): boolean => {
    const found = processesOf(containerPid, uid);
    for (const pid of found) signal(pid);
    return found.length > 0;
  };
  for (let pass = 0; pass < passes; pass += 1) {
    if (!kill()) return;
    await delay(passMs);
  }
  await whileStill(async () => void kill());
  for (const until = performance.now() + goneMs; performance.now() < until; await delay(passMs)) if (!kill()) return;
  throw new Error(`processes of user ${uid} cannot be ended`);
}

/** The user's processes in the pid namespace of a container's first process, as this host numbers them. */
export function processesOf(containerPid: number, uid: number): number[] {
  const namespace = namespaceOf(containerPid);
  if (namespace === undefined) return [];
  return liveProcesses(uid).filter((pid) => namespaceOf(pid) === namespace);
}

/** The pid namespaces in which the user has processes. One look at all processes of the host, however many containers there are. */
export function namespacesOfUser(uid: number): ReadonlySet<string> {
  return new Set(liveProcesses(uid).flatMap((pid) => namespaceOf(pid) ?? []));
}

function liveProcesses(uid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isLiveOf(pid, uid));
}

export function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined;
  }
}

/** The status and not the owner of the directory, which is root's for what cannot be dumped. */
function isLiveOf(pid: number, uid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return !/^State:\s+[ZX]/m.test(status) && new RegExp(`^Uid:.*\\b${uid}\\b`, 'm').test(status);
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
