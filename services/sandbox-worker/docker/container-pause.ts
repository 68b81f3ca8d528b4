import { setTimeout as delay } from 'node:timers/promises';
import type Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { engineFailed, isAbsent } from './engine-failure.ts';

/** On a busy host the runtime gives up freezing too early, so a refusal is not the end. */
const attempts = 6;
const firstPauseMs = 50;

/** The engine refuses to pause twice; what counts is the state afterwards. */
export async function setPaused(docker: Docker, id: string, paused: boolean): Promise<void> {
  const container = docker.getContainer(id);
  const doing = `${paused ? 'pausing' : 'resuming'} container ${id}`;
  let failure: unknown;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    if (attempt > 0) await delay(firstPauseMs * 2 ** (attempt - 1));
    try {
      await (paused ? container.pause() : container.unpause());
      return;
    } catch (error) {
      failure = error;
    }
    const state = await stateOf(container, doing);
    if (!state?.Running) {
      throw new DomainError('SANDBOX_LOST', `container ${id} does not run any more`, {}, { cause: failure });
    }
    if (state.Paused === paused) return;
  }
  throw engineFailed(doing, failure);
}

async function stateOf(
  container: Docker.Container,
  doing: string,
): Promise<{ Running: boolean; Paused: boolean } | undefined> {
  try {
    return (await container.inspect()).State;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw engineFailed(doing, error);
  }
}
