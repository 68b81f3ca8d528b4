import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '../../gen/assay/v1/session_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { createNatsSessionArchive } from '../../services/shared/store/nats-session-archive.ts';
import { adminKey, clientsOf, type RunningService, type RunOptions, runService } from './running-service.ts';

const env = { ASSAY_ARCHIVE_SWEEP_SECONDS: '1' };
/** Past the time for which an archived record is held back among the live ones. */
const later = 120_000;
const { CLOSED, READY } = SessionState;

let service: RunningService;
let api: ReturnType<typeof clientsOf>;
let skewMs = 0;
const clock: NonNullable<RunOptions['clock']> = { now: () => performance.now() + skewMs, nowMs: Date.now };

beforeEach(async () => {
  skewMs = 0;
  service = await runService({ env, clock });
  await service.addWorker({ heartbeatMs: 1_000 });
  api = clientsOf(service.transport(adminKey));
});
afterEach(() => service.stop());

const archive = () => createNatsSessionArchive(service.broker);
const liveRecords = async () => (await service.broker.bucket('assay_sessions').status()).values;
const create = async (requestId = ''): Promise<Session> => {
  const { session } = await api.sessions.createSession({ requestId, env: { SECRET: 'x' } });
  if (session === undefined) throw new Error('no session');
  return session;
};
const close = (sessionId: string) => api.sessions.closeSession({ sessionId });
async function allMoved(): Promise<void> {
  // The first sweep archives, and one of those after the time of holding back removes.
  await expect.poll(async () => (await archive().room()).records).toBeGreaterThan(0);
  await expect
    .poll(
      () => {
        skewMs += later;
        return liveRecords();
      },
      { interval: 500 },
    )
    .toBe(0);
}
async function listed(states: SessionState[] = [], pageSize = 2): Promise<string[]> {
  const ids: string[] = [];
  for (let pageToken = ''; ; ) {
    const page = await api.sessions.listSessions({ states, pageSize, pageToken });
    ids.push(...page.sessions.map(({ sessionId }) => sessionId));
    pageToken = page.nextPageToken;
    if (pageToken === '') return ids;
  }
}

describe('sessions that have ended', () => {
  test('leave the store of live ones, and are found as before', async () => {
    const { sessionId } = await create('asked-once');
    await close(sessionId);
    await allMoved();
    const { session } = await api.sessions.getSession({ sessionId });
    expect(session).toMatchObject({ sessionId, state: CLOSED, env: {} });
    expect((await close(sessionId)).session?.state).toBe(CLOSED);
    expect((await create('asked-once')).sessionId).toBe(sessionId);
    expect(await liveRecords()).toBe(0);
    const states: (SessionState | undefined)[] = [];
    for await (const { event } of api.sessions.followSession({ sessionId })) {
      if (event?.event.case === 'state') states.push(event.event.value.state);
    }
    expect(states.at(-1)).toBe(CLOSED);
  });

  test('are listed among live ones once each, newest first, page by page, before and after they are archived', async () => {
    const made: string[] = [];
    for (let i = 0; i < 9; i += 1) made.unshift((await create()).sessionId);
    const ended = made.filter((_, i) => i % 2 === 0);
    for (const id of ended) await close(id);
    expect(await listed()).toEqual(made);
    await expect.poll(async () => (await archive().room()).records).toBe(ended.length);
    expect(await listed()).toEqual(made);
    skewMs += later;
    await expect.poll(liveRecords).toBe(made.length - ended.length);
    expect(await listed()).toEqual(made);
    expect(await listed([CLOSED])).toEqual(ended);
    // The worker has to be heard of again on this clock.
    await expect.poll(() => listed([READY])).toEqual(made.filter((id) => !ended.includes(id)));
  });

  test('are moved by another service if one dies when it has only archived them', async () => {
    const { sessionId } = await create();
    const { session } = await close(sessionId);
    const found = await service.sessions.get('default', sessionId);
    if (session === undefined || found === undefined) throw new Error('no session');
    await archive().add(found.value);
    await service.stopService();
    const next = await runService({ env, clock, nats: service.nats });
    try {
      api = clientsOf(next.transport(adminKey));
      expect(await listed()).toEqual([sessionId]);
      await allMoved();
      expect((await archive().room()).records).toBe(1);
      expect(await listed()).toEqual([sessionId]);
    } finally {
      await next.stop();
    }
  });
});
