import { afterAll, beforeAll, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { WorkerState } from '../../gen/assay/v1/worker_pb.js';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let api: ReturnType<typeof clientsOf>;
let worker: WorkerDouble;

beforeAll(async () => {
  service = await runService({});
  api = clientsOf(service.transport(adminKey));
  worker = await service.addWorker();
});
afterAll(() => service.stop());

const refused = (call: Promise<unknown>) => call.catch((error: unknown) => error).then(reasonOf);

test('a drained worker is given no session and forks none, keeps those it has, and is given them again', async () => {
  const { workerId } = worker;
  const { sessionId = '' } = (await api.sessions.createSession({})).session ?? {};
  const drained = { workerId, drained: true, state: WorkerState.DRAINED };
  expect((await api.workers.drainWorker({ workerId })).worker).toMatchObject(drained);
  expect((await api.workers.drainWorker({ workerId })).worker).toMatchObject(drained);
  expect((await service.workers.get(workerId))?.value.drained).toBe(true);
  expect((await api.workers.getWorker({ workerId })).worker).toMatchObject(drained);
  expect(await refused(api.sessions.createSession({}))).toBe('NO_WORKER');
  expect(await refused(api.sessions.forkSession({ sessionId }))).toBe('NO_CAPACITY');
  expect((await api.sessions.getSession({ sessionId })).session?.sessionId).toBe(sessionId);
  const ready = { drained: false, state: WorkerState.READY };
  expect((await api.workers.drainWorker({ workerId, undo: true })).worker).toMatchObject(ready);
  expect((await api.sessions.createSession({})).session?.workerId).toBe(workerId);
});

test('workers are listed by id, page by page', async () => {
  const other = await service.addWorker();
  const first = await api.workers.listWorkers({ pageSize: 1 });
  const second = await api.workers.listWorkers({ pageSize: 1, pageToken: first.nextPageToken });
  const ids = [...first.workers, ...second.workers].map(({ workerId }) => workerId);
  expect(ids).toEqual([worker.workerId, other.workerId].toSorted());
  expect(second.nextPageToken).toBe('');
  expect(await refused(api.workers.listWorkers({ pageToken: 'x' }))).toBe('INVALID_PAGE_TOKEN');
});

test('every key may read workers, and only an admin of the operator drains or forgets one', async () => {
  const { workerId } = worker;
  const agent = clientsOf(service.transport((await service.makeKey(Scope.AGENT)).secret)).workers;
  expect((await agent.listWorkers({})).workers).not.toEqual([]);
  expect((await agent.getWorker({ workerId })).worker).toMatchObject({ workerId });
  expect(await refused(agent.drainWorker({ workerId }))).toBe('SCOPE_MISSING');
  const tenant = clientsOf(service.transport((await service.makeKey(Scope.ADMIN, 'other')).secret)).workers;
  expect(await refused(tenant.drainWorker({ workerId }))).toBe('SCOPE_MISSING');
  expect(await refused(tenant.forgetWorker({ workerId }))).toBe('SCOPE_MISSING');
  expect(await refused(api.workers.getWorker({ workerId: 'wrk-nobody' }))).toBe('WORKER_NOT_FOUND');
  expect(await refused(api.workers.drainWorker({ workerId: 'wrk-nobody' }))).toBe('WORKER_NOT_FOUND');
});
