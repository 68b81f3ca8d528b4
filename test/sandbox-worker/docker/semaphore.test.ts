import { expect, test } from 'vitest';
import { createSemaphore } from '../../../services/sandbox-worker/docker/semaphore.ts';

test('at most two tasks run at once, in order, and a failure frees its place', async () => {
  const limited = createSemaphore(2);
  const started: number[] = [];
  let running = 0;
  let most = 0;
  const task = (number: number) => async () => {
    started.push(number);
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    if (number === 2) throw new Error('two');
    return number;
  };
  const ends = await Promise.allSettled([1, 2, 3, 4, 5].map((number) => limited(task(number))));
  expect(most).toBe(2);
  expect(started).toEqual([1, 2, 3, 4, 5]);
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
});
