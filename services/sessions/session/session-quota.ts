import { DomainError } from '../../shared/domain-error.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { SessionDirectory } from './session-directory.ts';
import { sessionOf } from './session-view.ts';

/** Does what makes a session, if the project may have one more. */
export type SessionQuota = <T>(project: string, make: () => Promise<T>) => Promise<T>;

export function createSessionQuota(sessions: SessionDirectory, limit: number): SessionQuota {
  /** Sessions between their quota check and their record, so that a burst does not pass the quota together. */
  const arriving = new Map<string, number>();

  const giveBack = (project: string): void => {
    const others = (arriving.get(project) ?? 1) - 1;
    if (others > 0) arriving.set(project, others);
    else arriving.delete(project);
  };
  return async (project, make) => {
    const records = await sessions.ofProject(project);
    // No await between the count and the claim: of two that come together the second sees the first.
    const live = records.filter((record) => !isTerminal(sessionOf(record).state)).length;
    const others = arriving.get(project) ?? 0;
    if (live + others >= limit) throw quotaError(live + others, limit);
    arriving.set(project, others + 1);
    try {
      return await make();
    } finally {
      giveBack(project);
    }
  };
}

function quotaError(count: number, limit: number): DomainError {
  const message = `the project has ${count} live sessions, the limit (sessions_per_project); close one and try again`;
  return new DomainError('SESSION_QUOTA', message, { limit: String(limit) });
}
