import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { hasEnded } from './container-kill.ts';

const goneMs = 5_000;
const lookEveryMs = 5;

/**
 * Kills what still runs of a container that the engine does not list any more. An engine that is killed while it starts a container
 * leaves the container's first process and its shim; the next engine does not know them, and they hold the container's
 * disk. Resolves when they have ended.
 */
export async function killOrphans(containerId: string): Promise<void> {
  // A name could be part of another container's; only a whole id is nobody else's.
  if (!/^[0-9a-f]{64}$/.test(containerId)) return;
  const orphans = await orphansOf(containerId);
  for (const pid of orphans) kill(pid);
  const end = performance.now() + goneMs;
  while (!orphans.every(hasEnded)) {
    if (performance.now() > end) throw new Error(`processes ${orphans} of removed container ${containerId} do not end`);
    await delay(lookEveryMs);
  }
}

async function orphansOf(containerId: string): Promise<number[]> {
  const orphans: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const [cgroups, command] = await Promise.all([readText(`/proc/${name}/cgroup`), readText(`/proc/${name}/cmdline`)]);
    if (cgroups.includes(containerId) || isShimOf(containerId, command.split('\0'))) orphans.push(Number(name));
  }
  return orphans;
}

/** The shim is in the cgroup of its engine, and names its container. */
function isShimOf(containerId: string, [program = '', ...args]: string[]): boolean {
  const named = args.some((argument, index) => argument === '-id' && args[index + 1] === containerId);
  return named && basename(program).startsWith('containerd-shim');
}

/** Empty where the process has ended meanwhile. */
async function readText(path: string): Promise<string> {
  return readFile(path, 'latin1').catch(() => '');
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended by itself.
  }
}
