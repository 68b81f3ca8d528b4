import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState, TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import {
  createSessionFollower,
  type SessionFollowerDeps,
} from '../../../services/sessions/transcript/session-follower.ts';
import { createWorkShares } from '../../../services/shared/work-shares.ts';

/** A follower of one session in which nothing happens, and whether anything was waited for. */
function followerOf(state: SessionState, transcriptState: TranscriptState) {
  const record = create(SessionRecordSchema, { project: 'p', session: { sessionId: 's', state, transcriptState } });
  let waited = false;
  const never = (): Promise<never> => {
    waited = true;
    return new Promise(() => {});
  };
  const follow = createSessionFollower({
    sessions: { fresh: async () => record, until: never },
    workers: { peek: () => ({ reachable: true, suspect: false, record: { address: 'nowhere:1' } }) },
    client: { openStream: never },
    cursors: { open: (_project: string, _id: string, cursor: string) => cursor },
    shares: createWorkShares(),
  } as unknown as SessionFollowerDeps);
  const query = { sessionId: 's', cursor: '0.0', untilNow: false, withoutOutput: false, executionId: '' };
  return { events: follow('p', query, new AbortController().signal), waited: () => waited };
}

test.each([
  ['lives', SessionState.READY, TranscriptState.UNSPECIFIED],
  ['is not archived yet', SessionState.CLOSED, TranscriptState.PENDING],
  ['is archived', SessionState.CLOSED, TranscriptState.STORED],
])('who comes back to a session that %s is told at once that it was heard', async (_, state, transcript) => {
  const { events, waited } = followerOf(state, transcript);
  const first = await Promise.race([events.next(), new Promise((resolve) => setImmediate(resolve, 'nothing'))]);
  expect(first).toMatchObject({ value: { event: { case: 'heartbeat' }, cursor: '' } });
  expect(waited()).toBe(false);
});
