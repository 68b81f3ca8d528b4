import { readFileSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { typeid } from 'typeid-js';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { WorkerService } from '../../gen/assay/internal/v1/worker_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { createWorkerClient } from '../../services/sessions/worker/worker-client.ts';
import { createWorkerLinks } from '../../services/sessions/worker/worker-link.ts';
import { type Broker, connectBroker, readBrokerAuth } from '../../services/shared/store/broker.ts';
import { createNatsSessionStore } from '../../services/shared/store/nats-session-store.ts';
import { createNatsWorkerStore } from '../../services/shared/store/nats-worker-store.ts';
import { createEngineProbe } from './engine-probe.ts';
import { createGatedEngine, type GatedEngine } from './gated-engine.ts';
import { startTestStack, type TestStack } from './stack.ts';

let engine: GatedEngine;
let stack: TestStack;
let broker: Broker;
const links = createWorkerLinks();

beforeAll(async () => {
  engine = await createGatedEngine(inject('setup').dockerSocket);
  stack = await startTestStack({ env: { worker: { ASSAY_DOCKER_SOCKET: engine.path } } });
  const { natsUrl, natsAuthFile } = stack.stack;
  broker = await connectBroker({ url: natsUrl, ...readBrokerAuth(natsAuthFile), name: 'test', replicas: 1 });
});
afterAll(async () => {
  links.close();
  await broker?.close();
  engine?.open();
  await stack?.stop();
  engine?.end();
});

/** Right after a sweep, and seconds before the next: one that waited for the engine would be waited for before anything is closed. */
async function closeGate(): Promise<void> {
  engine.close();
  await engine.called();
  engine.open();
  engine.close();
}

/** Asks the worker for a session, as a server does that has not heard yet that it stops. */
async function askForSession(workerId: string, sessionId: string): Promise<unknown> {
  const sessions = createNatsSessionStore({ broker, onEventLost() {} });
  const session = { sessionId, workerId, state: SessionState.CREATING };
  await sessions.create(create(SessionRecordSchema, { project: 'default', session }));
  const address = (await createNatsWorkerStore(broker).get(workerId))?.value.address ?? '';
  const client = createWorkerClient(links, readFileSync(stack.stack.workerTokenFile, 'utf8').trim());
  const sandbox = { project: 'default', sessionId };
  return client.call(address, WorkerService.method.createSandbox, sandbox, { timeoutMs: 60_000 });
}

test('a worker that closes its sessions to stop makes no new one meanwhile', async () => {
  const late = typeid('ses').toString();
  const session = await stack.client.sessions.create({});
  const workers = await Array.fromAsync(stack.client.workers.list());
  await closeGate();
  const halted = stack.stack.halt('worker', 'SIGTERM');
  await expect.poll(async () => (await session.refresh()).state).toBe('CLOSING');
  await expect(askForSession(workers[0]?.id ?? '', late)).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  engine.open();
  await halted;
  expect(await session.refresh()).toMatchObject({ state: 'CLOSED', endReason: 'WORKER_STOPPED' });
  await expect(createEngineProbe().containerOf(late)).rejects.toThrow('has no container');
});

test('a worker that is told twice to stop ends at once, says so, and leaves the rest to its next life', async () => {
  stack.stack.start('worker');
  const session = await stack.client.sessions.create({});
  const before = stack.stack.restarts('worker');
  await closeGate();
  stack.stack.kill('worker', 'SIGTERM');
  await expect.poll(async () => (await session.refresh()).state).toBe('CLOSING');
  stack.stack.kill('worker', 'SIGTERM');
  await expect.poll(() => stack.stack.restarts('worker')).toBeGreaterThan(before);
  expect(stack.stack.lastLines('worker', 100).join('\n')).toContain('stopping was cut short');
  engine.open();
  await expect.poll(async () => (await session.refresh()).state).toBe('CLOSED');
  await expect(createEngineProbe().containerOf(session.id)).rejects.toThrow('has no container');
});
