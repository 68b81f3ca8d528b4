import { afterAll, beforeAll, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

let first: RunningService;
let second: RunningService;
beforeAll(async () => {
  first = await runService({ env: { ASSAY_LIMIT_SESSIONS_PER_PROJECT: '3' } });
  await first.addWorker({ heartbeatMs: 1_000 });
  second = await runService({ nats: first.nats });
});
afterAll(async () => {
  await second.stop();
  await first.stop();
});

const command = { case: 'command', value: 'true' } as const;

test('what one instance made the other serves at once: sessions, executions, keys, pages', async () => {
  const a = clientsOf(first.transport(adminKey));
  const b = clientsOf(second.transport(adminKey));
  for (let i = 0; i < 2; i += 1) {
    const sessionId = (await a.sessions.createSession({ requestId: `r${i}` })).session?.sessionId ?? '';
    let events = 0;
    for await (const _ of b.executions.execute({ sessionId, program: command })) events += 1;
    expect(events).toBe(3);
    const same = await b.sessions.createSession({ requestId: `r${i}` });
    expect(same.session).toMatchObject({ sessionId, state: SessionState.READY });
  }
  const { nextPageToken } = await a.sessions.listSessions({ pageSize: 1 });
  expect((await b.sessions.listSessions({ pageSize: 1, pageToken: nextPageToken })).sessions).toHaveLength(1);
  const { keyId, secret } = await first.makeKey(Scope.AGENT);
  const own = clientsOf(second.transport(secret));
  await own.sessions.listSessions({});
  await a.keys.revokeKey({ keyId });
  await expect.poll(() => own.sessions.listSessions({}).then(() => 'ok', reasonOf)).toBe('UNAUTHENTICATED');
});

test('a project over its quota is refused and another is not', async () => {
  const { secret } = await first.makeKey(Scope.AGENT, 'small');
  const { sessions } = clientsOf(first.transport(secret));
  const asked = Array.from({ length: 8 }, () => sessions.createSession({}).then(() => 'ok', reasonOf));
  const answers = await Promise.all(asked);
  expect(answers.filter((answer) => answer === 'ok')).toHaveLength(3);
  expect(answers.filter((answer) => answer === 'SESSION_QUOTA')).toHaveLength(5);
  const { sessions: mine } = await sessions.listSessions({});
  await sessions.closeSession({ sessionId: mine[0]?.sessionId ?? '' });
  expect((await sessions.createSession({})).session?.state).toBe(SessionState.READY);
});
