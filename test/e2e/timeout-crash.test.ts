import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Execution, Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const timeoutMs = 10_000;

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Two commands with a timeout, one of them in a shell, that run until /tmp/on is there. */
async function startTimed(session: Session): Promise<Execution[]> {
  const shell = await session.openShell();
  const command = 'echo go; until [ -e /tmp/on ]; do sleep 0.05; done';
  const timed = [session.execute(command, { timeoutMs }), shell.execute(command, { timeoutMs })];
  for (const { id } of timed) for await (const event of session.attach(id)) if (event.type === 'stdout') break;
  return timed;
}

const reasonsOf = (timed: Execution[]) => Promise.all(timed.map(async (each) => (await each.result()).reason));

test('a timeout that is over while there is no worker ends its command as soon as there is one', async () => {
  await using session = await stack.client.sessions.create({});
  const timed = await startTimed(session);
  await stack.stack.halt('worker', 'SIGKILL');
  await delay(timeoutMs);
  stack.stack.start('worker');
  // One that began anew would let them see the file.
  await session.run('sleep 1; touch /tmp/on');
  expect(await reasonsOf(timed)).toEqual(['TIMED_OUT', 'TIMED_OUT']);
});

test('a timeout stands still in a paused session whose worker is killed', async () => {
  await using session = await stack.client.sessions.create({});
  await using other = await stack.client.sessions.create({});
  const timed = await startTimed(session);
  await session.pause();
  await stack.replace('worker');
  // Where nothing stands still, that time passes.
  expect((await other.run('sleep 7000', { timeoutMs })).reason).toBe('TIMED_OUT');
  await session.resume();
  await session.run('touch /tmp/on');
  expect(await reasonsOf(timed)).toEqual(['EXITED', 'EXITED']);
});

test('a pause that was over before the worker was killed does not count either', async () => {
  await using session = await stack.client.sessions.create({});
  const timed = await startTimed(session);
  await session.pause();
  await delay(timeoutMs);
  await session.resume();
  await stack.replace('worker');
  await session.run('touch /tmp/on');
  expect(await reasonsOf(timed)).toEqual(['EXITED', 'EXITED']);
});
