import { timestampMs } from '@bufbuild/protobuf/wkt';
import { type ListSessionsRequest, ListSessionsRequestSchema, type Session } from '../../../gen/assay/v1/session_pb.js';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { requestDigest } from './request-digest.ts';
import type { SessionDirectory } from './session-directory.ts';
import { viewOf } from './session-view.ts';

export interface SessionPage {
  readonly sessions: Session[];
  readonly nextPageToken: string;
}

export type SessionLister = (project: string, request: ListSessionsRequest) => Promise<SessionPage>;

/** Newest first. A page goes on after the last session of the page before, whatever was made or ended meanwhile. */
export function createSessionLister(
  sessions: SessionDirectory,
  workers: WorkerDirectory,
  tokens: PageTokens,
): SessionLister {
  return async (project, request) => {
    const query = queryOf(project, request);
    const after = request.pageToken === '' ? undefined : tokens.open(query, request.pageToken);
    const size = checkPageSize(request.pageSize);
    const states = new Set(request.states);
    const labels = Object.entries(request.labels);
    const matching = (await sessions.ofProject(project))
      .map((record) => viewOf(record, workers))
      .filter((session) => states.size === 0 || states.has(session.state))
      .filter((session) => labels.every(([key, value]) => session.labels[key] === value))
      .map((session) => ({ session, position: positionOf(session) }))
      .filter(({ position }) => after === undefined || position < after)
      .sort((a, b) => (a.position < b.position ? 1 : -1));
    const page = matching.slice(0, size);
    const last = page.at(-1);
    return {
      sessions: page.map(({ session }) => withoutInstruction(session)),
      nextPageToken: last === undefined || matching.length <= size ? '' : tokens.make(query, last.position),
    };
  };
}

/** It may be long, and whoever lists sessions does not read them all. */
function withoutInstruction(session: Session): Session {
  if (session.sample === undefined) return session;
  return { ...session, sample: { ...session.sample, instruction: '' } };
}

/** Sorts as text like its time of creation; the id makes it unique. */
function positionOf(session: Session): string {
  const ms = session.createTime === undefined ? 0 : timestampMs(session.createTime);
  return `${String(ms).padStart(16, '0')}.${session.sessionId}`;
}

function queryOf(project: string, request: ListSessionsRequest): string {
  const bare = { ...request, pageSize: 0, pageToken: '' };
  const digest = requestDigest(ListSessionsRequestSchema, bare);
  return `sessions ${project} ${Buffer.from(digest).toString('hex')}`;
}
