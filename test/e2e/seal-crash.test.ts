import { setTimeout as delay } from 'node:timers/promises';
import Docker from 'dockerode';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
const docker = new Docker({ socketPath: inject('setup').dockerSocket, host: undefined });
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Calls back when the engine says that a container stands still. */
async function onPause(container: string, callback: () => void): Promise<Disposable> {
  const filters = { container: [container], event: ['pause'] };
  const events = (await docker.getEvents({ filters })) as NodeJS.ReadableStream & { destroy(): void };
  events.once('data', callback);
  events.on('error', () => {});
  return { [Symbol.dispose]: () => events.destroy() };
}

test('a session whose worker is killed while it is sealed runs again, and what was asked for is graded once', async () => {
  const { client } = stack;
  const sample = { dataset: 'examples', id: 'hello-fix' };
  await using session = await client.sessions.create({ sample, limits: { diskBytes: 512 * mebibyte } });
  // So much that its copy takes longer than a kill.
  await session.run(
    "head -c 100000000 /dev/urandom >data.bin; sed -i 's/range(low, high))/range(low, high + 1))/' ranges.py",
  );
  const alive = session.execute('cat', { input: true });
  await alive.started;
  // On a busy machine seconds pass before it is frozen, and after it was.
  const timeoutMs = 40_000;
  const timed = session.execute('until [ -e /tmp/on ]; do sleep 0.05; done', { timeoutMs });
  await timed.started;
  const over = delay(timeoutMs);
  const container = docker.getContainer(`assay-${session.id}`);
  const standing = Promise.withResolvers<void>();
  using _ = await onPause(`assay-${session.id}`, standing.resolve);

  const request = { requestId: 'asked-twice', force: true };
  const first = client.verifications.start(session.id, request).catch((error: unknown) => error);
  await standing.promise;
  await stack.stack.halt('worker', 'SIGKILL');
  expect((await container.inspect()).State.Paused).toBe(true);
  await over;

  stack.stack.start('worker');
  const { id } = await client.verifications.start(session.id, request);
  // It stood still all that time.
  await session.run('touch /tmp/on');
  expect((await timed.result()).reason).toBe('EXITED');
  await first;
  expect((await client.verifications.ended(id)).result).toMatchObject({ verdict: 'PASSED' });
  const known = await Array.fromAsync(client.verifications.list({ sessionId: session.id }));
  expect(known.map((each) => each.id)).toEqual([id]);

  expect((await container.inspect()).State.Paused).toBe(false);
  await alive.stdin.write('still here');
  await alive.stdin.end();
  expect(await alive.result()).toMatchObject({ reason: 'EXITED', stdoutBytes: 10 });
  expect((await session.run('wc -c <data.bin')).stdout.toString().trim()).toBe('100000000');
});
