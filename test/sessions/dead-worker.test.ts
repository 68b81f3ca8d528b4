import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionSchema, SessionState } from '../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

/** Longer than moving on takes on a busy machine, shorter than the minute that a create may take. */
const timeoutMs = 20_000;
let service: RunningService;
let worker: WorkerDouble;
let api: ReturnType<typeof clientsOf>;

beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  api = clientsOf(service.transport(adminKey));
});
afterAll(() => service.stop());
beforeEach(() => showWorker(worker, { capacity: 100, draining: false }));

/** Resolves once the service knows of the registration. */
async function showWorker(other: WorkerDouble, change: Parameters<WorkerDouble['register']>[0] = {}): Promise<void> {
  await other.register(change);
  const capacity = async () =>
    (await api.workers.listWorkers({})).workers.find(({ workerId }) => workerId === other.workerId)?.sessionCapacity;
  await expect.poll(capacity).toBe(change.capacity ?? 100);
}

/** A worker that everything is placed on while its registration is fresh. */
async function attractive(capabilities: string[] = []): Promise<WorkerDouble> {
  const other = await service.addWorker();
  await showWorker(other, { capacity: 100_000, capabilities });
  return other;
}

async function gone(other: WorkerDouble): Promise<void> {
  await showWorker(other, { capacity: 0, draining: true });
}

/** A way to a worker that can be stalled: then connections are still taken, and nothing is passed on. */
async function stallable(address: string) {
  const [host = '', port] = address.split(':');
  const sockets = new Set<Socket>();
  let stalled = false;
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes) => !stalled && to.write(bytes));
      from.on('error', () => {});
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    stall: () => {
      stalled = true;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test.each([[[]], [['warm_pool']]])(
  'a worker that was killed (%j) gets no session, and holds up none',
  async (given) => {
    const dead = await attractive(given);
    await dead.stop();
    const creates = Array.from({ length: 10 }, () => api.sessions.createSession({}, { timeoutMs }));
    for (const { session } of await Promise.all(creates)) {
      expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId });
    }
    await gone(dead);
  },
);

test('where no worker answers a create is refused at once, and leaves no session behind', async () => {
  const dead = await attractive();
  await dead.stop();
  await showWorker(worker, { capacity: 0, draining: true });
  const before = (await api.sessions.listSessions({})).sessions.length;
  const error = await api.sessions.createSession({}, { timeoutMs }).catch((e) => e);
  expect(reasonOf(error)).toBe('NO_WORKER');
  expect((await api.sessions.listSessions({})).sessions).toHaveLength(before);
  await gone(dead);
});

test.each([[[]], [['warm_pool']]])('a worker that hangs (%j) is passed over for one that answers', async (given) => {
  const hanging = await attractive(given);
  const way = await stallable(hanging.address);
  await hanging.register({ address: way.address });
  await expect.poll(async () => (await service.workers.get(hanging.workerId))?.value.address).toBe(way.address);
  const first = await api.sessions.createSession({}, { timeoutMs });
  expect(first.session?.workerId).toBe(hanging.workerId);
  way.stall();
  const { session } = await api.sessions.createSession({}, { timeoutMs });
  expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId });
  way.close();
  await gone(hanging);
});

test('a worker that dies while it makes a session, or stops, loses it to another', async () => {
  const dying = await attractive();
  dying.calls.createSandbox = async () => {
    dying.breakConnections();
    return {};
  };
  const first = await api.sessions.createSession({}, { timeoutMs });
  dying.calls.createSandbox = () => {
    throw new DomainError('SHUTTING_DOWN', 'the worker is stopping; try again');
  };
  await showWorker(dying, { capacity: 100_001 });
  const second = await api.sessions.createSession({}, { timeoutMs });
  for (const { session } of [first, second]) {
    expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId });
  }
  expect(dying.heard.filter((name) => name === 'CreateSandbox')).toHaveLength(2);
  await gone(dying);
});

test('a session that another service has given to a worker meanwhile is not failed for the worker that refused it', async () => {
  const other = await attractive();
  await showWorker(worker, { capacity: 100, draining: true });
  other.calls.createSandbox = async ({ project, sessionId }) => {
    await service.sessions.update(project, sessionId, (record) => {
      const session = record.session && { ...create(SessionSchema, record.session), workerId: worker.workerId };
      return session && { ...create(SessionRecordSchema, record), session };
    });
    throw new DomainError('NO_CAPACITY', 'the worker is full');
  };
  const { session } = await api.sessions.createSession({}, { timeoutMs });
  expect(session).toMatchObject({ state: SessionState.READY, workerId: worker.workerId });
  await gone(other);
});
