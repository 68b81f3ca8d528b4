import type Docker from 'dockerode';
import { engineFailed, isAbsent, statusOf } from './engine-failure.ts';

/** Kills the first process, and with it every other; the engine answers once it has seen the end. */
export async function killContainer(docker: Docker, id: string): Promise<void> {
  const container = docker.getContainer(id);
  try {
    await container.kill();
    await container.wait();
  } catch (error) {
    // One that does not run, or is gone, has no process.
    if (isAbsent(error) || statusOf(error) === 409) return;
    throw engineFailed(`killing container ${id}`, error);
  }
}
