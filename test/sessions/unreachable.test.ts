import { create } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState } from '../../gen/assay/v1/session_pb.js';
import { advance } from '../../services/shared/session-state.ts';
import { getPage } from '../http-page.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let aheadMs = 0;
let service: RunningService;
let worker: WorkerDouble;
let api: ReturnType<typeof clientsOf>;

beforeAll(async () => {
  const env = { ASSAY_ARCHIVE_SWEEP_SECONDS: '1' };
  service = await runService({ env, clock: { now: () => performance.now() + aheadMs, nowMs: Date.now } });
  worker = await service.addWorker();
  api = clientsOf(service.transport(adminKey));
});
afterAll(() => service.stop());
// It does so once: a test that comes late would find it silent.
beforeEach(() => worker.register());

const command = { case: 'command', value: 'true' } as const;
const made = async (): Promise<string> => (await api.sessions.createSession({})).session?.sessionId ?? '';
const stateOf = async (sessionId: string) => (await api.sessions.getSession({ sessionId })).session?.state;
const execute = async (sessionId: string): Promise<unknown> => {
  try {
    for await (const _ of api.executions.execute({ sessionId, program: command }));
    return 'done';
  } catch (error) {
    return reasonOf(error);
  }
};

test('a session is UNREACHABLE while its worker is silent and comes back by itself', async () => {
  const sessionId = await made();
  expect(await stateOf(sessionId)).toBe(SessionState.READY);
  aheadMs += 11_000;
  expect(await stateOf(sessionId)).toBe(SessionState.UNREACHABLE);
  const listed = await api.sessions.listSessions({ states: [SessionState.UNREACHABLE] });
  expect(listed.sessions.map((session) => session.sessionId)).toContain(sessionId);
  expect(await execute(sessionId)).toBe('SESSION_UNREACHABLE');
  expect(reasonOf(await api.sessions.createSession({}).catch((e) => e))).toBe('NO_WORKER');
  const health = await getPage(`http://127.0.0.1:${service.port}/healthz`);
  expect([health.status, JSON.parse(health.text)]).toMatchObject([503, { store: 'ok', reachable_workers: 0 }]);
  await worker.register();
  await expect.poll(() => stateOf(sessionId)).toBe(SessionState.READY);
  expect(await execute(sessionId)).toBe('done');
  expect((await getPage(`http://127.0.0.1:${service.port}/healthz`)).status).toBe(200);
  // The record itself never said anything else.
  expect((await service.sessions.get('default', sessionId))?.value.session?.state).toBe(SessionState.READY);
});

test('closing a session of a silent worker records it and says that it will be closed later', async () => {
  const sessionId = await made();
  aheadMs += 11_000;
  const error = await api.sessions.closeSession({ sessionId }).catch((e) => e);
  expect(reasonOf(error)).toBe('SESSION_UNREACHABLE');
  expect(ConnectError.from(error).rawMessage).toContain('will be closed when it is back');
  const record = await service.sessions.get('default', sessionId);
  expect(record?.value.session).toMatchObject({
    state: SessionState.CLOSING,
    endReason: SessionEndReason.CLOSED_BY_CALLER,
  });
  await worker.register();
  await expect
    .poll(() => api.sessions.closeSession({ sessionId }).then(({ session }) => session?.state, reasonOf))
    .toBe(SessionState.CLOSED);
  // Once more changes nothing.
  expect((await api.sessions.closeSession({ sessionId })).session?.state).toBe(SessionState.CLOSED);
});

test('a session that is CLOSING is closed though whoever closed it died before it told the worker', async () => {
  const sessionId = await made();
  await service.sessions.update('default', sessionId, (record) => {
    const closing = {
      type: 'closing',
      endReason: SessionEndReason.CLOSED_BY_CALLER,
      message: 'CloseSession was called',
    } as const;
    const session = record.session && advance(record.session, closing);
    return session && { ...create(SessionRecordSchema, record), session };
  });
  await expect.poll(() => stateOf(sessionId)).toBe(SessionState.CLOSING);
  aheadMs += 31_000;
  await expect.poll(() => worker.register().then(() => stateOf(sessionId))).toBe(SessionState.CLOSED);
});

test('commands run while the broker is away, however long, and sessions are not UNREACHABLE for it', async () => {
  const sessionId = await made();
  await service.nats.kill();
  expect(await execute(sessionId)).toBe('done');
  aheadMs += 30_000;
  expect(await execute(sessionId)).toBe('done');
  await service.nats.start();
  await expect.poll(() => stateOf(sessionId).catch(() => undefined)).toBe(SessionState.READY);
  expect(await execute(sessionId)).toBe('done');
});

test('an update reaches the record and the worker', async () => {
  const sessionId = await made();
  const { session } = await api.sessions.updateSession({
    sessionId,
    ttl: { seconds: 600n, nanos: 0 },
    idleTimeout: { seconds: 60n, nanos: 0 },
    labels: { a: 'b' },
  });
  expect(session).toMatchObject({ labels: { a: 'b' }, idleTimeout: { seconds: 60n } });
  expect(worker.heard).toContain('RefreshSandbox');
  const cleared = await api.sessions.updateSession({ sessionId, idleTimeout: { seconds: 0n, nanos: 0 } });
  expect(cleared.session?.idleTimeout).toBeUndefined();
  expect(cleared.session?.labels).toEqual({ a: 'b' });
  const updateMask = { paths: ['labels'] };
  const bare = await api.sessions.updateSession({ sessionId, idleTimeout: { seconds: 60n, nanos: 0 }, updateMask });
  expect(bare.session?.labels).toEqual({});
  expect(bare.session?.idleTimeout).toBeUndefined();
});

test('pause and resume pass through the worker', async () => {
  const sessionId = await made();
  expect((await api.sessions.pauseSession({ sessionId })).session?.paused).toBe(true);
  expect((await api.sessions.resumeSession({ sessionId })).session?.paused).toBe(false);
  await api.sessions.closeSession({ sessionId });
  expect(reasonOf(await api.sessions.pauseSession({ sessionId }).catch((e) => e))).toBe('SESSION_ENDED');
});
