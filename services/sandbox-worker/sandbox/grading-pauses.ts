import { PauseReason } from '../../../gen/assay/v1/session_pb.js';
import type { Hold } from '../../shared/session-state.ts';

/** A grading joins the pause of another that is younger than this; later ones wait until the sessions have run again. */
const joinMs = 30_000;
/** After a pause the sessions run for as long as it lasted, within these bounds. */
const shortestRunMs = 1_000;
const longestRunMs = 60_000;

const why: Hold = {
  pauseReason: PauseReason.GRADING,
  message: 'a sample of the project is being graded that asks for it; the session goes on by itself',
};

/**
 * Which projects' sessions have to stand still, because a sample that asks for it is graded on this worker. Gradings that follow each
 * other without end do not stop the sessions for good.
 */
export interface GradingPauses {
  /** Whether a grading of the project may begin now. If not, its sessions have to run first. */
  admits(project: string): boolean;
  /** How long a grading that was admitted has to wait still, in milliseconds: another pause may have ended meanwhile. */
  waitMs(project: string): number;
  /** One more grading of the project pauses its sessions, until what is returned is called. */
  begin(project: string): () => void;
  /** Why the sessions of the project have to stand still. Undefined: they may run. */
  holdFor(project: string): Hold | undefined;
}

interface ProjectPause {
  /** Gradings that run now. */
  running: number;
  beganMs: number;
  /** Until then the sessions run, whoever wants to be graded. */
  runUntilMs: number;
}

export function createGradingPauses(now: () => number = () => performance.now()): GradingPauses {
  const pauses = new Map<string, ProjectPause>();

  const find = (project: string): ProjectPause | undefined => {
    const pause = pauses.get(project);
    if (pause === undefined || pause.running > 0 || now() < pause.runUntilMs) return pause;
    pauses.delete(project);
    return undefined;
  };
  const end = (pause: ProjectPause): void => {
    pause.running -= 1;
    if (pause.running > 0) return;
    const lastedMs = now() - pause.beganMs;
    pause.runUntilMs = now() + Math.min(Math.max(lastedMs, shortestRunMs), longestRunMs);
  };
  return {
    admits(project) {
      const pause = find(project);
      return pause === undefined || (pause.running > 0 && now() - pause.beganMs < joinMs);
    },
    waitMs(project) {
      const pause = find(project);
      return pause === undefined || pause.running > 0 ? 0 : pause.runUntilMs - now();
    },
    begin(project) {
      const pause = pauses.get(project) ?? { running: 0, beganMs: 0, runUntilMs: 0 };
      pauses.set(project, pause);
      if (pause.running === 0) pause.beganMs = now();
      pause.running += 1;
      let ended = false;
      return () => {
        if (!ended) end(pause);
        ended = true;
      };
    },
    holdFor: (project) => ((pauses.get(project)?.running ?? 0) > 0 ? why : undefined),
  };
}
