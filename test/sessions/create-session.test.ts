import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PauseReason, SessionEndReason, SessionState } from '../../gen/assay/v1/session_pb.js';
import { NetworkMode } from '../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let api: ReturnType<typeof clientsOf>;

beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  api = clientsOf(service.transport(adminKey));
});
afterAll(() => service.stop());

/** Nothing is made on it any more, as far as the service knows. */
async function drain(other: WorkerDouble): Promise<void> {
  await other.register({ draining: true, capacity: 0 });
  const capacity = async () =>
    (await api.workers.listWorkers({})).workers.find(({ workerId }) => workerId === other.workerId)?.sessionCapacity;
  await expect.poll(capacity).toBe(0);
}

describe('creating a session', () => {
  test('answers with a READY session on the worker', async () => {
    const { session } = await api.sessions.createSession({ labels: { a: 'b' }, env: { X: '1' } });
    expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId, labels: { a: 'b' } });
    const again = await api.sessions.getSession({ sessionId: session?.sessionId ?? '' });
    expect(again.session).toEqual(session);
  });

  test('the same request id is the same session, also when asked twice at once', async () => {
    const request = { requestId: 'twice', labels: { one: '1', two: '2' } };
    const [first, second] = await Promise.all([
      api.sessions.createSession(request),
      api.sessions.createSession(request),
    ]);
    const third = await api.sessions.createSession({ requestId: 'twice', labels: { two: '2', one: '1' } });
    expect(second.session?.sessionId).toBe(first.session?.sessionId);
    expect(third.session?.sessionId).toBe(first.session?.sessionId);
  });

  test('the same request id with another request is refused', async () => {
    await api.sessions.createSession({ requestId: 'reused' });
    const error = await api.sessions.createSession({ requestId: 'reused', image: 'debian:12' }).catch((e) => e);
    expect(reasonOf(error)).toBe('REQUEST_ID_REUSED');
  });

  test('a full worker is passed over for the next', async () => {
    const other = await service.addWorker({ heartbeatMs: 1_000 });
    await other.register({ capacity: 1_000 });
    const roomy = async () =>
      (await api.workers.listWorkers({})).workers.some(({ sessionCapacity }) => sessionCapacity === 1_000);
    await expect.poll(roomy).toBe(true);
    other.calls.createSandbox = () => {
      throw new DomainError('NO_CAPACITY', 'full');
    };
    const { session } = await api.sessions.createSession({});
    expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId });
    expect(other.heard).toContain('CreateSandbox');
    await drain(other);
  });

  test('a project that has its share of every worker is told what the last one found', async () => {
    const good = worker.calls.createSandbox;
    const found = "the project's sandboxes on this worker may use 9 bytes of memory together";
    worker.calls.createSandbox = () => {
      throw new DomainError('CAPACITY_SHARE', found);
    };
    const error = await api.sessions.createSession({}).catch((e) => e);
    if (good) worker.calls.createSandbox = good;
    expect(reasonOf(error)).toBe('CAPACITY_SHARE');
    expect(error.rawMessage).toContain(found);
  });

  test('a fork stays with its source: where that worker is full it is refused', async () => {
    const source = (await api.sessions.createSession({ labels: { a: 'b' } })).session;
    const good = worker.calls.createSandbox;
    const other = await service.addWorker({ heartbeatMs: 1_000 });
    worker.calls.createSandbox = () => {
      throw new DomainError('NO_CAPACITY', 'full');
    };
    const error = await api.sessions.forkSession({ sessionId: source?.sessionId ?? '' }).catch((e) => e);
    expect(reasonOf(error)).toBe('NO_CAPACITY');
    expect(other.heard).not.toContain('CreateSandbox');
    if (good) worker.calls.createSandbox = good;
    const { session } = await api.sessions.forkSession({ sessionId: source?.sessionId ?? '' });
    expect(session).toMatchObject({ forkedFrom: source?.sessionId, workerId: worker.workerId, labels: { a: 'b' } });
    await drain(other);
  });

  test('a fork of a session that stands still is not told to stand still for the same reason', async () => {
    const { sessionId = '' } = (await api.sessions.createSession({})).session ?? {};
    const hold = { pauseReason: PauseReason.GRADING as const, message: 'a sample is being graded' };
    await worker.advance('default', sessionId, { type: 'paused', ...hold });
    await expect.poll(async () => (await api.sessions.getSession({ sessionId })).session).toMatchObject(hold);
    const good = worker.calls.createSandbox;
    const recorded = Promise.withResolvers<unknown>();
    worker.calls.createSandbox = async (request, context) => {
      recorded.resolve((await api.sessions.getSession({ sessionId: request.sessionId })).session);
      return good?.(request, context) ?? {};
    };
    const { session } = await api.sessions.forkSession({ sessionId });
    if (good) worker.calls.createSandbox = good;
    const none = { paused: false, pauseReason: PauseReason.UNSPECIFIED, message: '' };
    expect(await recorded.promise).toMatchObject({ state: SessionState.CREATING, ...none });
    expect(session).toMatchObject({ state: SessionState.READY, ...none });
  });

  test('a sandbox that cannot be made is an error that says why, and the same one when asked again', async () => {
    const good = worker.calls.createSandbox;
    worker.calls.createSandbox = async ({ project, sessionId }) => {
      const failed = {
        type: 'failed',
        endReason: SessionEndReason.CREATE_FAILED,
        errorReason: 'IMAGE_NOT_FOUND',
        message: 'no image nothing:1',
        atMs: Date.now(),
      } as const;
      await worker.advance(project, sessionId, failed);
      throw new DomainError('IMAGE_NOT_FOUND', 'no image nothing:1');
    };
    const request = { requestId: 'broken', image: 'nothing:1' };
    const first = await api.sessions.createSession(request).catch((e) => e);
    if (good) worker.calls.createSandbox = good;
    const second = await api.sessions.createSession(request).catch((e) => e);
    expect([reasonOf(first), reasonOf(second)]).toEqual(['IMAGE_NOT_FOUND', 'IMAGE_NOT_FOUND']);
    expect(ConnectError.from(first).rawMessage).toContain('no image nothing:1');
  });

  test('a network that no worker has is refused before anything is made', async () => {
    const heard = worker.heard.length;
    const request = { network: { mode: NetworkMode.FULL } };
    const error = await api.sessions.createSession(request).catch((e) => e);
    expect(reasonOf(error)).toBe('NETWORK_NOT_OFFERED');
    expect(ConnectError.from(error).rawMessage).toMatch(/network\.mode.*FULL.*network_full.*ASSAY_NETWORK_MODES/);
    expect(worker.heard.length).toBe(heard);
  });

  test('a worker that breaks off and finishes later still answers the call that waits', async () => {
    const good = worker.calls.createSandbox;
    worker.calls.createSandbox = async ({ project, sessionId }) => {
      worker.breakConnections();
      setTimeout(() => void worker.advance(project, sessionId, { type: 'ready' }), 300);
      return {};
    };
    const { session } = await api.sessions.createSession({});
    if (good) worker.calls.createSandbox = good;
    expect(session?.state).toBe(SessionState.READY);
  });

  test('a session that is closed while it is being made ends closed', async () => {
    const good = worker.calls.createSandbox;
    const asked = Promise.withResolvers<string>();
    worker.calls.createSandbox = async ({ sessionId }) => {
      asked.resolve(sessionId);
      return {};
    };
    const creating = api.sessions.createSession({}).catch((e) => e);
    const sessionId = await asked.promise;
    const { session } = await api.sessions.closeSession({ sessionId });
    if (good) worker.calls.createSandbox = good;
    expect(session).toMatchObject({ state: SessionState.CLOSED, endReason: SessionEndReason.CLOSED_BY_CALLER });
    expect(reasonOf(await creating)).toBe('SESSION_ENDED');
  });

  test('a deadline ends the wait and says so', async () => {
    const good = worker.calls.createSandbox;
    worker.calls.createSandbox = async () => ({});
    const error = await api.sessions.createSession({}, { timeoutMs: 300 }).catch((e) => e);
    if (good) worker.calls.createSandbox = good;
    expect(ConnectError.from(error).code).toBe(Code.DeadlineExceeded);
  });
});
