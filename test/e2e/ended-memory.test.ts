import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const count = 12;
let stack: TestStack;
let session: Session;

beforeAll(async () => {
  // A warm sandbox's directory gets another name when a session takes it, and its journal with it.
  const settings = { ASSAY_ENDED_IN_MEMORY: '3', ASSAY_ENDED_IN_MEMORY_PER_SESSION: '2', ASSAY_WARM_POOL: 'base=1' };
  stack = await startTestStack({ env: { worker: settings } });
  session = await stack.client.sessions.create({});
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

const idOf = (index: number) => `exe_${index}`;
const once = (index: number) => session.run(`echo ${index} >> log; echo out ${index}`, { id: idOf(index) });

async function attached(id: string): Promise<string> {
  const events = await Array.fromAsync(session.attach(id));
  return Buffer.concat(events.flatMap((event) => (event.type === 'stdout' ? [event.data] : []))).toString();
}

/** All that can be asked of the executions. */
async function seen() {
  const listed = await Array.fromAsync(session.executions());
  const single = await Promise.all(listed.map(({ id }) => session.execution(id)));
  const texts: string[] = [];
  for (const { id } of listed) texts.push(await attached(id));
  const transcript = await Array.fromAsync(session.transcript());
  return { listed, single, texts, transcript: transcript.map(({ cursor }) => cursor) };
}

test('a session runs more commands than its worker has in memory, and each is there as before, also after kill -9', async () => {
  for (let index = 0; index < count; index += 1) await once(index);
  await session.run('cat', { id: 'exe_cat', input: 'typed' });
  const before = await seen();
  expect(before.texts).toEqual([...Array.from({ length: count }, (_, index) => `out ${index}\n`), 'typed']);
  expect(before.single).toEqual(before.listed);
  expect(before.listed.at(-1)).toMatchObject({ inputBytes: 5 });
  expect(await seen()).toEqual(before);

  expect(String((await once(0)).stdout)).toBe('out 0\n');
  await expect(session.run('another', { id: idOf(1) })).rejects.toMatchObject({ reason: 'EXECUTION_ID_REUSED' });
  await stack.replace('worker');
  expect(String((await once(2)).stdout)).toBe('out 2\n');
  const after = await seen();
  expect({ ...after, listed: after.listed.length, single: 0 }).toEqual({ ...before, listed: count + 1, single: 0 });
  const ran = await session.run('wc -l < log');
  expect(String(ran.stdout).trim()).toBe(String(count));
});
