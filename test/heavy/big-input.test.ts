import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { peakResidentMebibytes, residentMebibytes } from './resident-memory.ts';

let stack: TestStack;
beforeAll(async () => {
  // The very first start on a machine strips the types of every file, which takes 20 MiB that no later one needs.
  await (await startTestStack()).stop();
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

test('a gibibyte through stdin into sha256sum arrives whole, and the memory of both services stays flat', async () => {
  const session = await stack.client.sessions.create({});
  const { worker, sessions } = stack.stack.pids;
  const block = randomBytes(1_048_576);
  const hash = createHash('sha256');
  const before: number[] = [];
  async function* input() {
    for (let count = 0; count < 1_024; count++) {
      if (count === 128) before.push(residentMebibytes(worker), residentMebibytes(sessions));
      hash.update(block);
      yield block;
    }
  }
  const { stdout } = await session.run('sha256sum', { input: input() });
  expect(String(stdout)).toBe(`${hash.digest('hex')}  -\n`);
  const peaks = [peakResidentMebibytes(worker), peakResidentMebibytes(sessions)];
  console.log(`resident after 128 MiB: ${before.map(Math.round)}, peak after 1 GiB: ${peaks.map(Math.round)} MiB`);
  // Flat: an eighth of it has passed at the first look, and the rest takes no more room.
  for (const [index, peak] of peaks.entries()) expect(peak - (before[index] as number)).toBeLessThan(96);
  for (const peak of peaks) expect(peak).toBeLessThan(300);
  await session.close();
});
