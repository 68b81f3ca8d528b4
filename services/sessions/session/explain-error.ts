import { DomainError } from '../../shared/domain-error.ts';
import type { SessionDirectory } from './session-directory.ts';
import { refusalOf } from './session-precondition.ts';
import { sessionOf } from './session-view.ts';

/**
 * What a worker's error is to be told as. A worker does not know a session any more once it is buried; that the session
 * was there, and why it ended, is in its record.
 */
export async function explainError(
  sessions: Pick<SessionDirectory, 'fresh'>,
  project: string,
  sessionId: string,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DomainError) || error.reason !== 'SESSION_NOT_FOUND') return error;
  try {
    return refusalOf(sessionOf(await sessions.fresh(project, sessionId))) ?? error;
  } catch (failure) {
    return failure;
  }
}
