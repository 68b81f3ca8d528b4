import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const lanes = 8;
const warmWanted = 4;
let stack: TestStack;
let alpha: Client;
let beta: Client;

beforeAll(async () => {
  stack = await startTestStack({ env: { worker: { ASSAY_WARM_POOL: 'base=2' } } });
  const clientOf = (project: string) => stack.clientWith({ project, scopes: ['AGENT'] });
  [alpha, beta] = await Promise.all([clientOf('alpha'), clientOf('beta')]);
});
afterAll(() => stack?.stop());

test('a project that creates without a pause leaves warm sandboxes to another', async () => {
  let flooding = true;
  let created = 0;
  const lane = async (): Promise<void> => {
    while (flooding) {
      await (await alpha.sessions.create({})).close();
      created += 1;
    }
  };
  const running = Array.from({ length: lanes }, lane);
  // From here on the pool that was filled before anybody came is gone.
  await expect.poll(() => created).toBeGreaterThan(lanes);
  try {
    for (let count = 0; count < warmWanted; count += 1) {
      const warm = async (): Promise<boolean> => {
        const session = await beta.sessions.create({});
        await session.close();
        return session.info.warm;
      };
      await expect.poll(warm).toBe(true);
    }
  } finally {
    flooding = false;
    await Promise.all(running);
  }
});
