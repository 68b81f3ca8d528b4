import { DomainError } from '../../shared/domain-error.ts';
import type { PageTokens } from './page-token.ts';

/** Opaque cursors of a session's log: a place in it, sealed together with the session it belongs to. */
export interface Cursors {
  make(project: string, sessionId: string, place: string): string;
  /** Throws INVALID_CURSOR for one that was changed or belongs to another session. */
  open(project: string, sessionId: string, cursor: string): string;
}

export function createCursors(tokens: PageTokens): Cursors {
  const query = (project: string, sessionId: string): string => `log ${project} ${sessionId}`;
  return {
    make: (project, sessionId, place) => tokens.make(query(project, sessionId), place),
    open(project, sessionId, cursor) {
      try {
        const place = tokens.open(query(project, sessionId), cursor);
        // Base64 has several spellings for the same bytes; only one was given out.
        if (tokens.make(query(project, sessionId), place) === cursor) return place;
      } catch {}
      const message = 'cursor: not a cursor of this session; send the cursor of an event, or none to begin';
      throw new DomainError('INVALID_CURSOR', message, { field: 'cursor' });
    },
  };
}
