import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createEngineProbe } from './engine-probe.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack({ env: { sessions: { ASSAY_LIMIT_SESSIONS_PER_PROJECT: '1' } } });
});
afterAll(() => stack?.stop());

const workers = async () => Array.fromAsync(stack.client.workers.list());

test('a worker that is gone is forgotten with its sessions, and removes what it has if it comes back', async () => {
  const session = await stack.client.sessions.create({ network: { mode: 'FULL' } });
  const gone = (await workers())[0]?.id ?? '';
  await expect(stack.client.workers.forget(gone)).rejects.toMatchObject({ reason: 'WORKER_ALIVE' });
  await stack.stack.halt('worker', 'SIGKILL');
  await expect.poll(async () => (await workers())[0]?.state).not.toBe('READY');
  // That nobody can connect to it shows at once; its sessions may come back until it is silent for long.
  await expect.poll(async () => (await session.refresh()).state).toBe('UNREACHABLE');
  await expect(stack.client.sessions.create({})).rejects.toMatchObject({ reason: 'SESSION_QUOTA' });

  expect(await stack.client.workers.forget(gone)).toEqual({ lostSessionCount: 1 });
  expect(await session.refresh()).toMatchObject({ state: 'LOST', endReason: 'WORKER_FORGOTTEN' });
  expect(await workers()).toEqual([]);
  expect((await (await createEngineProbe().containerOf(session.id)).inspect()).State.Running).toBe(true);

  stack.stack.start('worker');
  await expect.poll(() => stack.stack.restarts('worker')).toBe(1);
  const said = stack.stack.lastLines('worker', 1_000).join('\n');
  expect(said).toContain(`the operator has forgotten the worker ${gone}, and its sessions are LOST; 1 containers`);
  await expect(createEngineProbe().containerOf(session.id)).rejects.toThrow('has no container');
  expect(readdirSync(join(stack.stack.dataDir, 'worker', 's'))).toEqual([]);

  // The next life in the directory is a worker of its own.
  await stack.stack.ready();
  const next = await stack.client.sessions.create({});
  expect(String((await next.run('echo new')).stdout)).toBe('new\n');
  expect((await workers()).map(({ id }) => id)).not.toContain(gone);
  expect(await session.refresh()).toMatchObject({ state: 'LOST', endReason: 'WORKER_FORGOTTEN' });
});
