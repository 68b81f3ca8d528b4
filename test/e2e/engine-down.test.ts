import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { getPage } from '../http-page.ts';
import { createGatedEngine, type GatedEngine } from './gated-engine.ts';
import { startTestStack, type TestStack } from './stack.ts';

let engine: GatedEngine;
let stack: TestStack;
beforeAll(async () => {
  engine = await createGatedEngine(inject('setup').dockerSocket);
  stack = await startTestStack({ env: { worker: { ASSAY_DOCKER_SOCKET: engine.path } } });
});
afterAll(async () => {
  engine?.open();
  await stack?.stop();
  engine?.end();
});

test('a service whose only engine does not answer says so, goes on with its sessions, and recovers by itself', async () => {
  const session = await stack.client.sessions.create({});
  const status = async (path: string) => (await getPage(`${stack.endpoint}${path}`)).status;
  expect(await status('/readyz')).toBe(200);
  engine.close();
  await expect.poll(() => status('/readyz')).toBe(503);
  expect(await status('/livez')).toBe(200);
  const { stdout } = await session.run('echo on');
  expect(String(stdout)).toBe('on\n');
  engine.open();
  await expect.poll(() => status('/readyz')).toBe(200);
  await session.close();
});

test('a session that is asked for while the engine restarts is made when it is back', async () => {
  engine.goAway();
  const asked = stack.client.sessions.create({});
  asked.catch(() => {});
  const readiness = async () => (await fetch(`${stack.endpoint}/readyz`)).status;
  await expect.poll(readiness, { timeout: 60_000 }).toBe(503);
  engine.open();
  await (await asked).close();
});
