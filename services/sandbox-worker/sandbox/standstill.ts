import { PauseReason, type Session, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Hold } from '../../shared/session-state.ts';
import type { Engine } from '../docker/engine.ts';
import { stateOf } from '../log/session-log.ts';
import type { RecordKeeper } from './record-keeper.ts';
import type { Sandbox } from './sandbox.ts';

interface StandstillDeps {
  readonly engine: Engine;
  readonly records: Pick<RecordKeeper, 'put'>;
}

/** Pauses a session for its owner, or, with a reason, for the worker. */
export async function pauseSession(deps: StandstillDeps, sandbox: Sandbox, held?: Hold): Promise<void> {
  await pauseContainer(deps.engine, sandbox);
  sandbox.paused = true;
  sandbox.held = held;
  sandbox.log.tell({
    case: 'state',
    value: stateOf(SessionState.READY, { paused: true, pauseReason: PauseReason.CALLER, ...held }),
  });
  await deps.records.put(sandbox.project, sandbox.sessionId, { type: 'paused', ...held });
}

export async function resumeSession({ engine, records }: StandstillDeps, sandbox: Sandbox): Promise<void> {
  await engine.resume(sandbox.file.containerId, sandbox.project);
  sandbox.paused = false;
  sandbox.held = undefined;
  sandbox.activeMs = Date.now();
  sandbox.executions.thaw();
  sandbox.log.tell({ case: 'state', value: stateOf(SessionState.READY) });
  await records.put(sandbox.project, sandbox.sessionId, { type: 'resumed' });
}

/** Why a worker before this one paused the session on its own account. */
export function holdOf({ pauseReason, message }: Session): Hold | undefined {
  const held = pauseReason === PauseReason.DISK_PRESSURE || pauseReason === PauseReason.GRADING;
  return held ? { pauseReason, message } : undefined;
}

/** Has the engine pause a sandbox. It may take its time for that, in which no timeout may pass. */
export async function pauseContainer(engine: Engine, { executions, file, paused, project }: Sandbox): Promise<void> {
  executions.freeze();
  try {
    await engine.pause(file.containerId, project);
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
      await engine.resume(sandbox.file.containerId, sandbox.project);
    } finally {
      sandbox.executions.thaw();
      sandbox.still = false;
      sandbox.activeMs = Date.now();
    }
  }
}

/** Throws unless something can be done in the sandbox now. */
export function checkAwake({ paused, held }: Sandbox): void {
  if (held !== undefined) {
    const reason = held.pauseReason === PauseReason.DISK_PRESSURE ? 'HOST_FULL' : 'SESSION_NOT_READY';
    throw new DomainError(reason, `the session is paused by its worker: ${held.message}`);
  }
  if (paused) throw new DomainError('SESSION_NOT_READY', 'the session is paused; call ResumeSession first');
}
