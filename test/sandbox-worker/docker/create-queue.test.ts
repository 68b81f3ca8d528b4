import { expect, test } from 'vitest';
import { createCreateQueue } from '../../../services/sandbox-worker/docker/create-queue.ts';
import { tasks } from './ended-task.ts';

test('what nobody waits for begins while nobody creates, one at a time', async () => {
  const queue = createCreateQueue(2);
  const { begun, task, end } = tasks();
  void queue.run(task('first'));
  void queue.runInBackground(task('warm 1'));
  void queue.runInBackground(task('warm 2'));
  expect(begun).toEqual(['first']);
  await end('first');
  expect(begun.slice(1)).toEqual(['warm 1']);
  await end('warm 1');
  expect(begun.slice(2)).toEqual(['warm 2']);
  await end('warm 2');
});

test('what nobody waits for begins once every project that waits was served, however many more they ask for', async () => {
  const queue = createCreateQueue(1);
  const { begun, task, end } = tasks();
  for (const name of ['a1', 'a2', 'a3', 'a4']) void queue.run(task(name), 'alpha');
  for (const name of ['b1', 'b2']) void queue.run(task(name), 'beta');
  void queue.runInBackground(task('warm 1'));
  void queue.runInBackground(task('warm 2'));
  for (const name of ['a1', 'a2', 'b1', 'warm 1', 'a3']) await end(name);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'warm 1', 'a3', 'b2', 'warm 2']);
  for (const name of ['b2', 'warm 2', 'a4']) await end(name);
});

test('a creation that somebody waits for is not held up by one that nobody waits for', async () => {
  const queue = createCreateQueue(1);
  const { begun, task, end } = tasks();
  void queue.runInBackground(task('warm'));
  await new Promise((resolve) => setImmediate(resolve));
  void queue.run(task('wanted'));
  expect(begun).toEqual(['warm', 'wanted']);
  await end('wanted');
  await end('warm');
});

test('a failure gives way to the next', async () => {
  const queue = createCreateQueue(1);
  const failed = queue.runInBackground(() => Promise.reject(new Error('no')));
  await expect(failed).rejects.toThrow('no');
  expect(await queue.runInBackground(async () => 'next')).toBe('next');
});
