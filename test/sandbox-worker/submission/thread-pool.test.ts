import { expect, test } from 'vitest';
import { createThreadPool, type ThreadPool } from '../../../services/sandbox-worker/submission/thread-pool.ts';

interface Named {
  readonly kind: 'named';
  readonly thread: number;
}

/** Its threads tell which they are. */
const script = new URL(
  `data:text/javascript,import { parentPort, threadId } from 'node:worker_threads';
parentPort.on('message', () => parentPort.postMessage({ kind: 'named', thread: threadId }));`,
);

const poolOf = (idleMs: number) => createThreadPool<string, Named>({ script, most: 2, heapMebibytes: 64, idleMs });
const nameIn = (pool: ThreadPool<string, Named>): Promise<number> =>
  pool.use(async (helper) => {
    helper.send('name');
    return (await helper.next(60_000)).thread;
  });

test('a thread is used again while it is wanted, and two work side by side', async () => {
  const pool = poolOf(60_000);
  const first = await nameIn(pool);
  expect(await nameIn(pool)).toBe(first);
  expect(new Set(await Promise.all([nameIn(pool), nameIn(pool)])).size).toBe(2);
  await pool.close();
});

test('a thread that nobody needs for a while is ended, and a new one does the next work', async () => {
  const pool = poolOf(1);
  const first = await nameIn(pool);
  await expect.poll(() => nameIn(pool)).not.toBe(first);
  await pool.close();
});

test('a thread whose work failed is not used again', async () => {
  const pool = poolOf(60_000);
  const first = await nameIn(pool);
  const failed = pool.use(async () => Promise.reject(new Error('it failed')));
  await expect(failed).rejects.toThrow('it failed');
  expect(await nameIn(pool)).not.toBe(first);
  await pool.close();
});

test('a project leaves a thread to others', async () => {
  const pool = createThreadPool<string, Named>({ script, most: 2, mostOfProject: 1, heapMebibytes: 64 });
  const endless = Promise.withResolvers<void>();
  const greedy = [0, 1].map(() => pool.use(() => endless.promise, 'greedy'));
  await pool.use(async () => {}, 'modest');
  endless.resolve();
  await Promise.all(greedy);
  await pool.close();
});
