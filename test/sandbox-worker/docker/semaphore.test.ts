import { expect, test } from 'vitest';
import { createSemaphore, createSharedCount } from '../../../services/sandbox-worker/docker/semaphore.ts';
import { tasks } from './ended-task.ts';

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

test('projects take turns: one task of another project waits for one of a flood, not for all', async () => {
  const limited = createSemaphore(1);
  const { begun, task, end } = tasks();
  for (const name of ['a1', 'a2', 'a3', 'a4']) void limited(task(name), 'alpha');
  for (const name of ['b1', 'b2']) void limited(task(name), 'beta');
  void limited(task('c1'), 'gamma');
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']) await end(name);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
  await end('a4');
});

test('a permit that no single project may take is free for the next project at once', async () => {
  const limited = createSemaphore(3, () => 2);
  const { begun, task, end } = tasks();
  for (const name of ['a1', 'a2', 'a3']) void limited(task(name), 'alpha');
  expect(begun).toEqual(['a1', 'a2']);
  void limited(task('b1'), 'beta');
  expect(begun.slice(2)).toEqual(['b1']);
  await end('b1');
  expect(begun).not.toContain('a3');
  await end('a1');
  expect(begun.slice(3)).toEqual(['a3']);
  for (const name of ['a2', 'a3']) await end(name);
});

test('a project has its number of tasks in all semaphores that share a count, and the kinds take turns', async () => {
  const shared = createSharedCount();
  const [creating, removing] = [createSemaphore(3, () => 2, shared), createSemaphore(3, () => 2, shared)];
  const { begun, task, end } = tasks();
  for (const name of ['create 1', 'create 2', 'create 3', 'create 4']) void creating(task(name), 'alpha');
  for (const name of ['remove 1', 'remove 2']) void removing(task(name), 'alpha');
  void removing(task('remove of beta'), 'beta');
  expect(begun).toEqual(['create 1', 'create 2', 'remove of beta']);
  for (const name of ['create 1', 'remove 1', 'create 3', 'remove 2', 'create 2']) await end(name);
  expect(begun.slice(3)).toEqual(['remove 1', 'create 3', 'remove 2', 'create 4']);
  for (const name of ['remove of beta', 'create 4']) await end(name);
});

test('a project has fewer tasks while others work, and as many as before once it is alone', async () => {
  let most = 1;
  const limited = createSemaphore(3, () => most);
  const { begun, task, end } = tasks();
  for (const name of ['a1', 'a2', 'a3', 'a4']) void limited(task(name), 'alpha');
  expect(begun).toEqual(['a1']);
  most = 2;
  await end('a1');
  expect(begun).toEqual(['a1', 'a2', 'a3']);
  most = 1;
  await end('a2');
  expect(begun).toHaveLength(3);
  for (const name of ['a3', 'a4']) await end(name);
});

test('a task that waits and is aborted ends at once, never begins and holds up nobody', async () => {
  const limited = createSemaphore(1);
  const { begun, task, end } = tasks();
  const leaving = new AbortController();
  void limited(task('a1'), 'alpha');
  const left = limited(task('a2'), 'alpha', leaving.signal);
  void limited(task('a3'), 'alpha');
  leaving.abort(new Error('nobody waits for it'));
  await expect(left).rejects.toThrow('nobody waits for it');
  await end('a1');
  expect(begun).toEqual(['a1', 'a3']);
  await end('a3');
  void limited(task('a4'), 'alpha');
  expect(begun.slice(2)).toEqual(['a4']);
  await end('a4');
});

test('a task that is aborted after it got its permit does not begin, and gives the permit back', async () => {
  const limited = createSemaphore(1);
  const { begun, task } = tasks();
  const leaving = new AbortController();
  const first = limited(async () => leaving.abort(new Error('nobody waits for it')));
  await expect(limited(task('second'), '', leaving.signal)).rejects.toThrow('nobody waits for it');
  await first;
  void limited(task('third'));
  expect(begun).toEqual(['third']);
});
