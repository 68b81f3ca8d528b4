import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { createEngineApi } from '../../scripts/setup/engine-api.mjs';
import { startTestStack, type TestStack } from '../e2e/stack.ts';

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  stack.stack.kill('nats', 'SIGCONT');
  await stack.stop();
});

test('a worker that is stopped while the broker is silent leaves no container', async () => {
  for (let count = 0; count < 3; count++) await (await stack.client.sessions.create({})).run('true');
  stack.stack.kill('nats', 'SIGSTOP');
  // It is killed if that takes longer than its grace.
  await stack.stack.halt('worker', 'SIGTERM');
  const filters = JSON.stringify({ label: [`dev.assay.installation=${stack.stack.installation}`] });
  const api = createEngineApi(inject('setup').dockerSocket);
  expect(await api.get(`/containers/json?${new URLSearchParams({ all: '1', filters })}`)).toEqual([]);
});
