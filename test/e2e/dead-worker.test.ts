import type { ChildProcess } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { createEngineProbe } from './engine-probe.ts';
import { eventually } from './eventually.ts';
import { createGatedEngine, type GatedEngine } from './gated-engine.ts';
import { startSecondWorker, stopSecondWorker } from './second-worker.ts';
import { startTestStack, type TestStack } from './stack.ts';

let engine: GatedEngine;
let stack: TestStack;
let second: ChildProcess;
const probe = createEngineProbe();

beforeAll(async () => {
  engine = await createGatedEngine(inject('setup').dockerSocket);
  stack = await startTestStack({ env: { worker: { ASSAY_DOCKER_SOCKET: engine.path, ASSAY_WORKER_CAPACITY: '200' } } });
  // With less room than the first: what is asked for is placed on the first while it answers.
  second = startSecondWorker(stack, { ASSAY_WORKER_CAPACITY: '100' });
  await eventually(async () => expect(await Array.fromAsync(stack.client.workers.list())).toHaveLength(2));
});
afterAll(async () => {
  engine?.open();
  stack?.stack.kill('worker', 'SIGCONT');
  await stopSecondWorker(second);
  await stack?.stop();
  engine?.end();
});

const slots = (worker: string): string[] => readdirSync(join(stack.stack.dataDir, worker, 's'));

async function workerOf(session: Session): Promise<string> {
  return (await session.refresh()).workerId;
}

test('a session that its worker was making when it froze is made by another, and by that one alone', async () => {
  const before = await stack.client.sessions.create({});
  const frozen = await workerOf(before);
  engine.close();
  const creating = stack.client.sessions.create({});
  const { id: sessionId } = await eventually(async () => {
    for await (const found of stack.client.sessions.list({ states: ['CREATING'] })) return found;
    throw new Error('there is no record yet');
  });
  // The first worker has begun, and waits for its engine.
  await engine.called();
  stack.stack.kill('worker', 'SIGSTOP');
  const session = await creating;
  expect(session.id).toBe(sessionId);
  expect(await workerOf(session)).not.toBe(frozen);
  expect((await session.run('echo one')).stdout.toString()).toBe('one\n');
  engine.open();
  stack.stack.kill('worker', 'SIGCONT');
  // It goes on with what it had begun, finds that the session is another's, and removes it.
  await eventually(async () => {
    expect(slots('worker')).toEqual([before.id]);
    expect(await probe.containersOf(session.id)).toHaveLength(1);
  });
  expect((await session.run('echo two')).stdout.toString()).toBe('two\n');
  expect((await before.run('echo three')).stdout.toString()).toBe('three\n');
  for (const each of [session, before]) await each.close();
});

test('creates go on while a worker is dead, none waits for it, and none fails', async () => {
  await stack.stack.halt('worker', 'SIGKILL');
  const sessions = await Promise.all(Array.from({ length: 4 }, () => stack.client.sessions.create({})));
  const workers = new Set(await Promise.all(sessions.map(workerOf)));
  expect(workers.size).toBe(1);
  for (const session of sessions) await session.close();
  stack.stack.start('worker');
  await stack.stack.ready();
});
