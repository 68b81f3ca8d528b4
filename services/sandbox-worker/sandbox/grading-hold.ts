import { setTimeout as delay } from 'node:timers/promises';
import { PauseReason } from '../../../gen/assay/v1/session_pb.js';
import type { Logger } from '../../shared/log.ts';
import type { GradingPauses } from './grading-pauses.ts';
import type { Sandbox } from './sandbox.ts';
import type { Sandboxes } from './sandboxes.ts';

export interface GradingHoldDeps {
  readonly sandboxes: Pick<Sandboxes, 'live' | 'hold' | 'letGo'>;
  readonly pauses: GradingPauses;
  readonly log: Logger;
}

/** A grading that may pause the sessions of its project. */
export interface PausingGrading {
  /** Resolves when every session of the project on this worker stands still; they do until end(). */
  begin(signal: AbortSignal): Promise<void>;
  end(): void;
}

/** Pauses the sessions of a project while a sample is graded that asks for it, and lets them go on afterwards. */
export interface GradingHold {
  /** Undefined: the sessions have to run first; to be asked again later. */
  admit(project: string): PausingGrading | undefined;
  /**
   * Resumes what stands still for a grading that is over, also one of a worker before this one, whose containers must be gone by then. To
   * be called often: what the engine or the store refused is tried again.
   */
  look(): void;
}

export function createGradingHold({ sandboxes, pauses, log }: GradingHoldDeps): GradingHold {
  /** Being paused or resumed. */
  const changing = new Set<Sandbox>();

  const change = (sandbox: Sandbox, what: string, work: () => Promise<void>): void => {
    if (changing.has(sandbox)) return;
    changing.add(sandbox);
    log.info({ session_id: sandbox.sessionId }, what);
    work()
      .catch((error) => log.error({ session_id: sandbox.sessionId, err: error }, `${what}: it failed, trying again`))
      .finally(() => changing.delete(sandbox));
  };
  const look = (): void => {
    for (const sandbox of sandboxes.live) {
      const why = pauses.holdFor(sandbox.project);
      if (why === undefined && sandbox.held?.pauseReason === PauseReason.GRADING) {
        change(sandbox, 'resuming a session: the grading is over', () => sandboxes.letGo(sandbox, PauseReason.GRADING));
      } else if (why !== undefined && !sandbox.paused) {
        change(sandbox, 'pausing a session during a grading', () => sandboxes.hold(sandbox, why));
      }
    }
  };
  const pauseAll = async (project: string): Promise<void> => {
    const why = pauses.holdFor(project);
    if (why === undefined) return;
    const pausing = [...sandboxes.live].map(async (sandbox) => {
      if (sandbox.project !== project) return;
      await sandboxes.hold(sandbox, why).catch((error) => {
        // One that ended meanwhile hears nothing.
        if ([...sandboxes.live].includes(sandbox)) throw error;
      });
    });
    await Promise.all(pausing);
  };
  return {
    look,
    admit(project) {
      if (!pauses.admits(project)) return undefined;
      let begun: Promise<void> | undefined;
      let ended = false;
      let leave = (): void => {};
      const begin = async (signal: AbortSignal): Promise<void> => {
        for (let ms = pauses.waitMs(project); ms > 0; ms = pauses.waitMs(project))
          await delay(ms, undefined, { signal });
        signal.throwIfAborted();
        if (ended) return;
        leave = pauses.begin(project);
        await pauseAll(project);
      };
      return {
        begin(signal) {
          begun ??= begin(signal);
          return begun;
        },
        end() {
          ended = true;
          leave();
          look();
        },
      };
    },
  };
}
