import { expect, test } from 'vitest';
import { createCreateQueue } from '../../../services/sandbox-worker/docker/create-queue.ts';

/** A task that the test ends, and a list of those that have begun. */
function tasks() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const task = (name: string) => () =>
    new Promise<void>((resolve) => {
      begun.push(name);
      ends.set(name, resolve);
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { begun, task, end };
}

test('what nobody waits for begins only while nobody creates, one at a time', async () => {
  const queue = createCreateQueue(2);
  const { begun, task, end } = tasks();
  void queue.run(task('first'));
  void queue.runWhenIdle(task('warm 1'));
  void queue.runWhenIdle(task('warm 2'));
  void queue.run(task('second'));
  void queue.run(task('third'));
  expect(begun).toEqual(['first', 'second']);
  await end('first');
  await end('second');
  expect(begun).toEqual(['first', 'second', 'third']);
  await end('third');
  expect(begun.slice(3)).toEqual(['warm 1']);
  await end('warm 1');
  expect(begun.slice(4)).toEqual(['warm 2']);
  await end('warm 2');
});

test('a creation that somebody waits for is not held up by one that nobody waits for', async () => {
  const queue = createCreateQueue(1);
  const { begun, task, end } = tasks();
  void queue.runWhenIdle(task('warm'));
  await new Promise((resolve) => setImmediate(resolve));
  void queue.run(task('wanted'));
  expect(begun).toEqual(['warm', 'wanted']);
  await end('wanted');
  await end('warm');
});

test('a failure gives way to the next', async () => {
  const queue = createCreateQueue(1);
  const failed = queue.runWhenIdle(() => Promise.reject(new Error('no')));
  await expect(failed).rejects.toThrow('no');
  expect(await queue.runWhenIdle(async () => 'next')).toBe('next');
});
