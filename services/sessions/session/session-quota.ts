import { DomainError } from '../../shared/domain-error.ts';
import { isTerminal } from '../../shared/session-state.ts';
import { createQuota, type Quota } from '../quota.ts';
import type { LiveRoom } from './live-room.ts';
import type { SessionDirectory } from './session-directory.ts';
import { sessionOf } from './session-view.ts';

/** Live sessions of a project, while the store has room for another. */
export function createSessionQuota(
  sessions: Pick<SessionDirectory, 'ofProject'>,
  limit: number,
  room: Pick<LiveRoom, 'check'>,
): Quota {
  return createQuota({
    limit,
    async idsOf(project) {
      room.check();
      const all = (await sessions.ofProject(project)).map(sessionOf);
      return new Set(all.filter(({ state }) => !isTerminal(state)).map(({ sessionId }) => sessionId));
    },
    refusal(count) {
      const message = `the project has ${count} live sessions, the limit (ASSAY_LIMIT_SESSIONS_PER_PROJECT); close one and try again`;
      return new DomainError('SESSION_QUOTA', message, { limit: String(limit) });
    },
  });
}
