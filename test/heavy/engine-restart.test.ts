import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { type OwnEngine, startOwnEngine } from './own-engine.ts';

let engine: OwnEngine;
let stack: TestStack;

beforeAll(async () => {
  engine = await startOwnEngine();
  stack = await startTestStack({ env: { worker: { ASSAY_DOCKER_SOCKET: engine.socket } } });
});
afterAll(async () => {
  await stack?.stop();
  await engine?.stop();
});

test('sessions and what runs in them survive a restart of the engine that set-up started', async () => {
  const session = await stack.client.sessions.create({});
  const running = session.execute('echo before; read line; echo "after $line"', { input: true });
  await running.started;
  await engine.restart();
  await running.stdin.end('restart\n');
  expect(await running.result()).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 21 });
  // The engine knows the container still: it can be paused, and removed.
  await session.pause();
  await session.resume();
  expect(String((await session.run('echo on')).stdout)).toBe('on\n');
  await session.close();
  await expect.poll(() => engine.api.get('/containers/json?all=1'), { timeout: 60_000 }).toEqual([]);
});
