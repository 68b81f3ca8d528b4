import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { isTerminal } from '../../shared/session-state.ts';
import { type InPlaceSession, SessionGone, type SessionPlace } from '../grading/in-place.ts';
import type { RecordKeeper } from '../sandbox/record-keeper.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { createTurns } from '../sandbox/turns.ts';
import { clearPlace, graderNamespaces, hasLeftovers, openPlace, type PlaceDeps } from './session-place.ts';

export interface SessionPlacesDeps extends PlaceDeps {
  readonly records: Pick<RecordKeeper, 'get'>;
  readonly log: Logger;
}

/** The sessions of this worker, for runs at SHARED. */
export interface SessionPlaces {
  of(project: string, sessionId: string): InPlaceSession;
  /** Removes what a worker that died in the middle of such a run left in sessions that live on. */
  sweep(): Promise<void>;
}

export function createSessionPlaces(deps: SessionPlacesDeps): SessionPlaces {
  const { sandboxes, records, engine, log } = deps;
  const turns = createTurns();
  /** Sessions for which a verification is under way. */
  const kept = new Set<string>();

  const atHand = (project: string, sessionId: string): Sandbox | undefined =>
    [...sandboxes.live].find((each) => each.sessionId === sessionId && each.project === project);
  const find = async (project: string, sessionId: string): Promise<Sandbox> => {
    const sandbox = atHand(project, sessionId);
    if (sandbox !== undefined) return sandbox;
    const state = (await records.get(project, sessionId))?.session?.state;
    if (state === undefined || isTerminal(state)) throw gone(sessionId);
    throw new DomainError('SESSION_NOT_READY', `session ${sessionId} is not at hand on its worker`);
  };
  const isGone = async (sandbox: Sandbox): Promise<boolean> =>
    ![...sandboxes.live].includes(sandbox) || (await engine.pid(sandbox.file.containerId)) === undefined;
  const clearQuietly = async (sandbox: Sandbox): Promise<void> => {
    try {
      if ([...sandboxes.live].includes(sandbox)) await clearPlace(deps, sandbox);
    } catch (error) {
      log.error({ session_id: sandbox.sessionId, err: error }, 'what a grading left in a session stays until a sweep');
    }
  };
  const use = async <T>(
    sandbox: Sandbox,
    signal: AbortSignal,
    work: (place: SessionPlace) => Promise<T>,
  ): Promise<T> => {
    try {
      if (hasLeftovers(sandbox)) await clearPlace(deps, sandbox);
      const place = await openPlace(deps, sandbox, signal);
      const result = await work(place);
      // A program that ended because its session did has said nothing.
      if (await isGone(sandbox)) throw gone(sandbox.sessionId);
      return result;
    } catch (error) {
      if (!signal.aborted && (await isGone(sandbox))) throw gone(sandbox.sessionId);
      throw error;
    } finally {
      await clearQuietly(sandbox);
    }
  };
  return {
    of: (project, sessionId) => ({
      keep() {
        if (kept.has(sessionId) || atHand(project, sessionId)?.paused === true) return undefined;
        kept.add(sessionId);
        return () => void kept.delete(sessionId);
      },
      async within(signal, work) {
        const begun = Promise.withResolvers<void>();
        const done = turns.exclusively(sessionId, async () => {
          begun.resolve();
          signal.throwIfAborted();
          return use(await find(project, sessionId), signal, work);
        });
        done.catch(() => {});
        // Who waits for another run may be called off at once; who is at it clears up first.
        await abortable(signal, begun.promise);
        return done;
      },
    }),
    async sweep() {
      // Without root no tests run in sessions, and their files are not to be looked at.
      if (!engine.hasLayers) return;
      const busy = graderNamespaces();
      for (const sandbox of [...sandboxes.live]) {
        const { sessionId } = sandbox;
        if (turns.busy(sessionId) || !hasLeftovers(sandbox, busy)) continue;
        log.warn({ session_id: sessionId }, 'removing what a grading left in a session');
        await turns.exclusively(sessionId, () => clearQuietly(sandbox));
      }
    },
  };
}

function gone(sessionId: string): SessionGone {
  return new SessionGone(`session ${sessionId} ended before its tests at SHARED had, which run in the session itself`);
}
