import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { register } from '../../services/sandbox-worker/registration.ts';
import { type Broker, connectBroker, readBrokerAuth } from '../../services/shared/store/broker.ts';
import { sessionKey } from '../../services/shared/store/nats-session-store.ts';
import { createNatsWorkerStore } from '../../services/shared/store/nats-worker-store.ts';
import { createRecordView } from '../../services/shared/store/record-view.ts';
import { createEngineProbe } from './engine-probe.ts';
import { printed } from './printed.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let broker: Broker;

beforeAll(async () => {
  stack = await startTestStack();
  const { natsUrl, natsAuthFile } = stack.stack;
  broker = await connectBroker({ url: natsUrl, ...readBrokerAuth(natsAuthFile), name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker?.close();
  await stack?.stop();
});

/** Every state that is written to a session's record from now on. */
async function statesOf(sessionId: string): Promise<{ readonly states: SessionState[]; close(): void }> {
  const states: SessionState[] = [];
  const view = createRecordView({
    ...{ broker, bucket: 'assay_sessions', schema: SessionRecordSchema, now: () => performance.now() },
    onError: (error) => expect.unreachable(String(error)),
  });
  await view.whenWarm();
  view.subscribe(sessionKey('default', sessionId), ({ value }) => {
    states.push(value.session?.state ?? SessionState.UNSPECIFIED);
  });
  return { states, close: view.close };
}

test('a worker whose id was taken over removes its sandboxes, and leaves their records to the other', async () => {
  const session = await stack.client.sessions.create({});
  const running = session.execute('echo on; sleep 1000');
  await printed(session, running, 'on');
  const written = await statesOf(session.id);
  const workers = await Array.fromAsync(stack.client.workers.list());
  const newer = await register({
    ...{ store: createNatsWorkerStore(broker), workerId: workers[0]?.id ?? '', address: '127.0.0.1:1', capacity: 1 },
    ...{ capabilities: [], load: () => 0, warm: { size: 0, capacity: 0 }, log: pino({ enabled: false }) },
    pressure: () => undefined,
    shortages: () => [],
    engineProblem: () => undefined,
    // The next life of the stack's own worker.
    replaced() {},
  });
  expect(await running.result()).toMatchObject({ reason: 'SANDBOX_LOST' });
  await expect.poll(() => stack.stack.restarts('worker')).toBe(1);
  await expect(createEngineProbe().containerOf(session.id)).rejects.toThrow('has no container');
  expect(readdirSync(join(stack.stack.dataDir, 'worker', 's'))).toEqual([]);
  const said = stack.stack.lastLines('worker', 1_000).filter((line) => line.includes('has taken over this worker id'));
  expect(said).toHaveLength(1);
  // Whoever has the id then finds the record without a sandbox.
  await expect.poll(async () => (await session.refresh()).state).toBe('LOST');
  expect(written.states).toEqual([SessionState.LOST]);
  written.close();
  newer.stop();
});
