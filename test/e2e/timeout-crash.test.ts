import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Execution, Session } from '../../clients/typescript/index.ts';
import { printed } from './printed.ts';
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
  for (const execution of timed) await printed(session, execution, 'go');
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

test('a timeout stands still in a paused session, whether its worker is killed during the pause or after it', async () => {
  const [during, after, other] = await Promise.all([1, 2, 3].map(() => stack.client.sessions.create({})));
  if (during === undefined || after === undefined || other === undefined) throw new Error('expected three sessions');
  const timedDuring = await startTimed(during);
  await during.pause();
  await stack.replace('worker');
  const timedAfter = await startTimed(after);
  await after.pause();
  // Where nothing stands still, that time passes.
  expect((await other.run('sleep 7000', { timeoutMs })).reason).toBe('TIMED_OUT');
  await during.resume();
  await during.run('touch /tmp/on');
  expect(await reasonsOf(timedDuring)).toEqual(['EXITED', 'EXITED']);
  await after.resume();
  await stack.replace('worker');
  await after.run('touch /tmp/on');
  expect(await reasonsOf(timedAfter)).toEqual(['EXITED', 'EXITED']);
  await Promise.all([during, after, other].map((session) => session.close()));
});
