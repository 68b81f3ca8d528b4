import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client, Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let alpha: Client;
let beta: Client;

beforeAll(async () => {
  stack = await startTestStack({ env: { worker: { ASSAY_WORKER_CAPACITY: '4', ASSAY_PROJECT_SHARE: '50' } } });
  const clientOf = (project: string) => stack.clientWith({ project, scopes: ['AGENT'] });
  [alpha, beta] = await Promise.all([clientOf('alpha'), clientOf('beta')]);
});
afterAll(() => stack?.stop());

test('one project cannot take the whole worker, also with many creates at once: another still gets a session', async () => {
  const asked = await Promise.allSettled(Array.from({ length: 6 }, () => alpha.sessions.create({})));
  const refusals = asked.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
  expect(refusals).toHaveLength(4);
  for (const refusal of refusals) {
    expect(refusal).toMatchObject({
      reason: 'CAPACITY_SHARE',
      message: expect.stringContaining('ASSAY_PROJECT_SHARE'),
    });
  }
  const sessions: Session[] = asked.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  sessions.push(await beta.sessions.create({}));
  await sessions[0]?.close();
  sessions.push(await alpha.sessions.create({}));
  for (const session of sessions) await session.close();
});
