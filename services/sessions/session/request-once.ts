import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { requestDigest } from './request-digest.ts';
import type { SessionDirectory } from './session-directory.ts';
import { makeSessionId, sessionIdOfRequest } from './session-id.ts';
import { sessionOf } from './session-view.ts';

/** What a new record gets from the request that asks for it. */
export interface NewSession {
  readonly sessionId: string;
  /** Empty where the request had no id. */
  readonly requestDigest: Uint8Array;
}

/** Makes the record of a request, or finds the one that the same request id made before. */
export type RequestOnce = <Desc extends DescMessage>(
  project: string,
  schema: Desc,
  request: MessageShape<Desc> & { readonly requestId: string },
  /** Undefined: a record with this id exists. */
  make: (session: NewSession) => Promise<SessionRecord | undefined>,
) => Promise<SessionRecord>;

/** Most requests are new, and one that is not meets its record when it writes its own; the store is asked if that fails. */
export function createRequestOnce(sessions: SessionDirectory): RequestOnce {
  return async (project, schema, request, make) => {
    const named = request.requestId !== '';
    const sessionId = named ? sessionIdOfRequest(project, request.requestId) : makeSessionId();
    const digest = named ? requestDigest(schema, request) : new Uint8Array();
    const earlier = async (): Promise<SessionRecord> => checkSame(await sessions.fresh(project, sessionId), digest);
    if (sessions.peek(project, sessionId) !== undefined) return earlier();
    // In memory, unless this instance has just begun to follow the archive.
    if (named && sessions.mayHaveEnded(sessionId) && (await exists(sessions, project, sessionId))) return earlier();
    try {
      return (await make({ sessionId, requestDigest: digest })) ?? (await earlier());
    } catch (error) {
      if (!named || !(await exists(sessions, project, sessionId).catch(() => false))) throw error;
      return earlier();
    }
  };
}

async function exists(sessions: SessionDirectory, project: string, sessionId: string): Promise<boolean> {
  try {
    await sessions.fresh(project, sessionId);
    return true;
  } catch (error) {
    if (error instanceof DomainError && error.reason === 'SESSION_NOT_FOUND') return false;
    throw error;
  }
}

function checkSame(found: SessionRecord, digest: Uint8Array): SessionRecord {
  if (Buffer.compare(found.requestDigest, digest) === 0) return found;
  const id = sessionOf(found).sessionId;
  const message = `request_id: another request made session ${id} with it; choose a new request_id`;
  throw new DomainError('REQUEST_ID_REUSED', message, { field: 'request_id', session_id: id });
}
