import { setTimeout as delay } from 'node:timers/promises';
import type Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { engineFailed, isAbsent } from './engine-failure.ts';

/**
 * On a busy host the runtime gives up freezing too early, and an engine that restarts does not answer: neither is the end
 * until this time is up.
 */
const patienceMs = 10_000;
const firstPauseMs = 50;
const longestPauseMs = 800;

/** The engine refuses to pause twice; what counts is the state afterwards. */
export async function setPaused(docker: Docker, id: string, paused: boolean): Promise<void> {
  const container = docker.getContainer(id);
  const doing = `${paused ? 'pausing' : 'resuming'} container ${id}`;
  const end = performance.now() + patienceMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    const failure = await (paused ? container.pause() : container.unpause()).then(
      () => undefined,
      (error: Error) => error,
    );
    if (failure === undefined) return;
    const state = await stateOf(container);
    if (state === 'gone') {
      throw new DomainError('SANDBOX_LOST', `container ${id} does not run any more`, {}, { cause: failure });
    }
    if (state === (paused ? 'paused' : 'running')) return;
    if (performance.now() > end) throw engineFailed(doing, failure);
    await delay(pauseMs);
  }
}

async function stateOf(container: Docker.Container): Promise<'running' | 'paused' | 'gone' | 'unknown'> {
  try {
    const { Running, Paused } = (await container.inspect()).State;
    if (!Running) return 'gone';
    return Paused ? 'paused' : 'running';
  } catch (error) {
    return isAbsent(error) ? 'gone' : 'unknown';
  }
}
