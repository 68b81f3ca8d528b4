import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type Docker from 'dockerode';
import type { RunningContainer } from './engine.ts';
import { engineFailed, isAbsent, statusOf } from './engine-failure.ts';

const longestMs = 1_000;

/** Kills the first process, and with it every other. */
export async function killContainer(docker: Docker, running: RunningContainer): Promise<void> {
  // The engine takes tens of milliseconds to tell of what the kernel did in one.
  if (signalFirstProcess(running) && (await isOver(running.pid))) return;
  const container = docker.getContainer(running.id);
  try {
    await container.kill();
    await container.wait();
  } catch (error) {
    // One that does not run, or is gone, has no process.
    if (isAbsent(error) || statusOf(error) === 409) return;
    throw engineFailed(`killing container ${running.id}`, error);
  }
}

function signalFirstProcess({ id, pid }: RunningContainer): boolean {
  try {
    // The number might be another's by now; the cgroup of a container is named after it.
    if (!readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(id)) return false;
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

/** The kernel lets the first process of a pid namespace end only when every other in it is gone. */
async function isOver(pid: number): Promise<boolean> {
  for (const began = performance.now(); performance.now() - began < longestMs; await delay(1)) {
    if (hasEnded(pid)) return true;
  }
  return false;
}

/** Whether a process is gone or a zombie, which holds nothing any more. */
export function hasEnded(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return 'ZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2));
  } catch (error) {
    return ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}
