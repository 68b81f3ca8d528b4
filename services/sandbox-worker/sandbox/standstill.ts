import type { Engine } from '../docker/engine.ts';
import type { Sandbox } from './sandbox.ts';

/** Has the engine pause a sandbox. It may take its time for that, in which no timeout may pass. */
export async function pauseContainer(engine: Engine, { executions, file, paused }: Sandbox): Promise<void> {
  executions.freeze();
  try {
    await engine.pause(file.containerId);
  } catch (error) {
    if (!paused) executions.thaw();
    throw error;
  }
}

/**
 * Does something while every process of a sandbox stands still. No timeout runs meanwhile, and a command that comes is
 * taken and starts afterwards. A worker that dies in between leaves it frozen; the next one thaws it when it takes it up.
 * One that the engine does not resume now is resumed by the caretaker.
 */
export async function whileStill<T>(engine: Engine, sandbox: Sandbox, work: () => Promise<T>): Promise<T> {
  if (sandbox.paused) return work();
  sandbox.still = true;
  try {
    await pauseContainer(engine, sandbox);
    return await work();
  } finally {
    try {
      await engine.resume(sandbox.file.containerId);
    } finally {
      sandbox.executions.thaw();
      sandbox.still = false;
      sandbox.activeMs = Date.now();
    }
  }
}
