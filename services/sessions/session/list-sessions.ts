import { timestampMs } from '@bufbuild/protobuf/wkt';
import { type ListSessionsRequest, ListSessionsRequestSchema, type Session } from '../../../gen/assay/v1/session_pb.js';
import { isTerminal } from '../../shared/session-state.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import type { EndedCursor, EndedSessions } from './ended-sessions.ts';
import { requestDigest } from './request-digest.ts';
import type { SessionDirectory } from './session-directory.ts';
import { sessionOf, viewOf } from './session-view.ts';

export interface SessionPage {
  readonly sessions: Session[];
  readonly nextPageToken: string;
}

export type SessionLister = (project: string, request: ListSessionsRequest) => Promise<SessionPage>;

export interface SessionListerDeps {
  readonly sessions: SessionDirectory;
  readonly ended: EndedSessions;
  readonly workers: WorkerDirectory;
  readonly tokens: PageTokens;
}

/** Archived records that one call reads in vain. A page that is not full by then says where to go on. */
const mostUnwanted = 500;
/** Records that are read from the archive at once. */
const mostRead = 1_001;

/** A session and where it is in the list. */
interface Listed {
  readonly session: Session;
  readonly position: string;
}

/** Newest first. A page goes on after the last session of the page before, whatever was made or ended meanwhile. */
export function createSessionLister({ sessions, ended, workers, tokens }: SessionListerDeps): SessionLister {
  /** What is not archived, or not yet forgotten by this process, newest first. */
  const recent = async (project: string, request: ListSessionsRequest, after: string | undefined) =>
    (await sessions.ofProject(project))
      .map((record) => listedAs(viewOf(record, workers)))
      .filter(({ session, position }) => (after === undefined || position < after) && isWanted(session, request))
      .sort(newestFirst);

  const archived = (project: string, request: ListSessionsRequest, after: string | undefined): Promise<EndedCursor> => {
    const states = new Set(request.states.filter(isTerminal));
    if (request.states.length > 0 && states.size === 0) return Promise.resolve(nothing);
    return ended.from(project, after === undefined ? Number.POSITIVE_INFINITY : msOf(after), states);
  };

  return async (project, request) => {
    const query = queryOf(project, request);
    const after = request.pageToken === '' ? undefined : tokens.open(query, request.pageToken);
    const size = checkPageSize(request.pageSize);
    const page: Session[] = [];
    let place = '';
    let unwanted = 0;
    const known = await recent(project, request, after);
    const missing = () => Math.min(size + 1 - page.length, mostRead);
    for await (const { session, position } of merged(known, await archived(project, request, after), missing)) {
      if (after !== undefined && position >= after) continue;
      if (page.length === size || unwanted === mostUnwanted) {
        return { sessions: page, nextPageToken: tokens.make(query, place) };
      }
      place = position;
      if (isWanted(session, request)) page.push(withoutInstruction(session));
      else unwanted += 1;
    }
    return { sessions: page, nextPageToken: '' };
  };
}

const nothing: EndedCursor = { nextMs: () => undefined, read: async () => [] };

/** Both newest first, each session once: one that has just been archived may be in both. Reads no more records than it must. */
async function* merged(known: readonly Listed[], archived: EndedCursor, missing: () => number) {
  const rest = known.values();
  let next = rest.next().value;
  for (let ms = archived.nextMs(); ms !== undefined; ms = archived.nextMs()) {
    for (; next !== undefined && msOf(next.position) > ms; next = rest.next().value) yield next;
    const records = await archived.read(missing());
    for (const listed of records.map((record) => listedAs(sessionOf(record))).sort(newestFirst)) {
      for (; next !== undefined && next.position > listed.position; next = rest.next().value) yield next;
      if (next?.position !== listed.position) yield listed;
    }
  }
  for (; next !== undefined; next = rest.next().value) yield next;
}

function isWanted(session: Session, { states, labels }: ListSessionsRequest): boolean {
  if (states.length > 0 && !states.includes(session.state)) return false;
  return Object.entries(labels).every(([key, value]) => session.labels[key] === value);
}

/** It may be long, and whoever lists sessions does not read them all. */
function withoutInstruction(session: Session): Session {
  if (session.sample === undefined) return session;
  return { ...session, sample: { ...session.sample, instruction: '' } };
}

function listedAs(session: Session): Listed {
  return { session, position: positionOf(session) };
}

const msDigits = 16;

/** Sorts as text like its time of creation; the id makes it unique. */
function positionOf(session: Session): string {
  const ms = session.createTime === undefined ? 0 : timestampMs(session.createTime);
  return `${String(ms).padStart(msDigits, '0')}.${session.sessionId}`;
}

function msOf(position: string): number {
  return Number(position.slice(0, msDigits));
}

function newestFirst(a: Listed, b: Listed): number {
  return a.position < b.position ? 1 : -1;
}

function queryOf(project: string, request: ListSessionsRequest): string {
  const bare = { ...request, pageSize: 0, pageToken: '' };
  const digest = requestDigest(ListSessionsRequestSchema, bare);
  return `sessions ${project} ${Buffer.from(digest).toString('hex')}`;
}
