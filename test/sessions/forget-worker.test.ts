import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionEndReason, SessionState, TranscriptState } from '../../gen/assay/v1/session_pb.js';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let aheadMs = 0;
let service: RunningService;
let api: ReturnType<typeof clientsOf>;

beforeAll(async () => {
  service = await runService({
    clock: { now: () => performance.now() + aheadMs, nowMs: Date.now },
    env: { ASSAY_LIMIT_SESSIONS_PER_PROJECT: '2' },
  });
  api = clientsOf(service.transport(adminKey));
});
afterAll(() => service.stop());

/** Two sessions on a worker of their own, as many as the project may have; the worker is silent then. */
async function silentWorker(): Promise<{ worker: WorkerDouble; sessionIds: string[] }> {
  // Those of the tests before are silent.
  aheadMs += 11_000;
  const worker = await service.addWorker();
  const sessionIds = [await made(), await made()];
  aheadMs += 11_000;
  return { worker, sessionIds };
}

const made = async (): Promise<string> => (await api.sessions.createSession({})).session?.sessionId ?? '';
const sessionOf = async (sessionId: string) => (await api.sessions.getSession({ sessionId })).session;
const known = async () => (await api.workers.listWorkers({})).workers.map(({ workerId }) => workerId);
const refused = (call: Promise<unknown>) => call.catch((error: unknown) => error).then(reasonOf);

test('the sessions of a forgotten worker are LOST and leave the quota, and no session is placed on it', async () => {
  const { worker, sessionIds } = await silentWorker();
  const { workerId } = worker;
  expect(await sessionOf(sessionIds[0] ?? '')).toMatchObject({ state: SessionState.UNREACHABLE });
  expect(await refused(api.sessions.createSession({}))).toBe('SESSION_QUOTA');
  await worker.advance('default', sessionIds[1] ?? '', {
    ...{ type: 'failed', endReason: SessionEndReason.SANDBOX_LOST, message: '', atMs: Date.now() },
    transcript: { state: TranscriptState.PENDING, message: 'the sandbox is being removed' },
  });
  expect(await api.workers.forgetWorker({ workerId })).toMatchObject({ lostSessionCount: 1 });
  expect(await sessionOf(sessionIds[0] ?? '')).toMatchObject({
    ...{
      state: SessionState.LOST,
      endReason: SessionEndReason.WORKER_FORGOTTEN,
      message: expect.stringContaining(workerId),
    },
    transcriptState: TranscriptState.MISSING,
  });
  // What has ended stays as it ended; only nobody waits for its transcript any more.
  expect(await sessionOf(sessionIds[1] ?? '')).toMatchObject({
    ...{
      state: SessionState.FAILED,
      endReason: SessionEndReason.SANDBOX_LOST,
      transcriptState: TranscriptState.MISSING,
    },
  });
  expect(await known()).not.toContain(workerId);
  expect(await refused(api.sessions.createSession({}))).toBe('NO_WORKER');
  expect((await service.workers.get(workerId))?.value).toMatchObject({ forgotten: true, epoch: 2n });
  expect(await api.workers.forgetWorker({ workerId })).toMatchObject({ lostSessionCount: 0 });
});

test('a worker that lives is not forgotten, and the refusal says what to do', async () => {
  const { worker, sessionIds } = await silentWorker();
  const { workerId } = worker;
  await worker.register();
  const error = await api.workers.forgetWorker({ workerId }).catch((e) => e);
  expect(reasonOf(error)).toBe('WORKER_ALIVE');
  expect(ConnectError.from(error).rawMessage).toMatch(new RegExp(`stop it .*type: assay workers forget ${workerId}$`));
  expect((await service.workers.get(workerId))?.value.forgotten).toBe(false);
  for (const sessionId of sessionIds) await api.sessions.closeSession({ sessionId });
});

test('a call that broke off is finished by the next', async () => {
  const { worker, sessionIds } = await silentWorker();
  const { workerId } = worker;
  await api.workers.forgetWorker({ workerId });
  // One that a server had placed and not yet written when the others were lost.
  const { value } = (await service.sessions.get('default', sessionIds[0] ?? '')) ?? {};
  if (value?.session === undefined) throw new Error('no record');
  const late = { ...value.session, sessionId: 'ses_01h455vb4pex5vsknk084sn02q', state: SessionState.CREATING };
  await service.sessions.create({ ...value, session: late });
  expect(await api.workers.forgetWorker({ workerId })).toMatchObject({ lostSessionCount: 1 });
  expect(await sessionOf(late.sessionId)).toMatchObject({
    state: SessionState.LOST,
    endReason: SessionEndReason.WORKER_FORGOTTEN,
  });
});

test('a worker that nobody knows cannot be forgotten', async () => {
  expect(await refused(api.workers.forgetWorker({ workerId: 'wrk-nobody' }))).toBe('WORKER_NOT_FOUND');
  expect(await refused(api.workers.forgetWorker({ workerId: '' }))).toBe('INVALID_FIELD');
});
