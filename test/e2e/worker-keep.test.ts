import { afterAll, beforeAll, expect, test } from 'vitest';
import { rounds } from '../rounds.ts';
import { startTestStack, type TestStack } from './stack.ts';

const stops = rounds(2, 4);
const lanes = 8;
let stack: TestStack;

beforeAll(async () => {
  stack = await startTestStack({ onStop: 'keep' });
});
afterAll(() => stack?.stop());

test('commands go on while their worker stops and starts again: none is told that its session is gone', async () => {
  const session = await stack.client.sessions.create({});
  const failures: unknown[] = [];
  let stopping = true;
  let done = 0;
  const lane = async (): Promise<void> => {
    while (stopping) {
      await session.run('true').then(
        () => (done += 1),
        (error) => failures.push(error),
      );
    }
  };
  const running = Array.from({ length: lanes }, lane);
  for (let count = 1; count <= stops; count += 1) {
    const before = done;
    await expect.poll(() => done).toBeGreaterThan(before + lanes);
    expect(stack.stack.kill('worker', 'SIGTERM')).toBe(true);
    await expect.poll(() => stack.stack.restarts('worker')).toBe(count);
    await stack.stack.ready();
  }
  stopping = false;
  await Promise.all(running);
  await session.close();
  expect(failures).toEqual([]);
});
