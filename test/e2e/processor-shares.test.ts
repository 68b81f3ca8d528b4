import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client, Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const greedySessions = 6;
/** Long enough that the first second, in which all weigh the same, does not decide. */
const timeoutMs = 8_000;
/** As many processes as the host has cores, at least two. */
const spin = 'for each in 1 2; do while :; do :; done & done; wait';

let stack: TestStack;
let alpha: Client;
let beta: Client;

beforeAll(async () => {
  stack = await startTestStack();
  const clientOf = (project: string) => stack.clientWith({ project, scopes: ['AGENT'] });
  [alpha, beta] = await Promise.all([clientOf('alpha'), clientOf('beta')]);
});
afterAll(() => stack?.stop());

test('sessions of one project that use all processors leave another project its share', async () => {
  const greedy = await Promise.all(Array.from({ length: greedySessions }, () => alpha.sessions.create({})));
  const modest = await beta.sessions.create({});
  const spent = async (session: Session) => (await session.execute(spin, { timeoutMs }).result()).cpuTimeMs;
  const [had, ...taken] = await Promise.all([modest, ...greedy].map(spent));
  const all = taken.reduce((sum, each) => sum + each, had ?? 0);
  // Alike, each of the seven would have a seventh; by project, half.
  expect((had ?? 0) / all).toBeGreaterThan(0.25);
  await Promise.all([modest, ...greedy].map((session) => session.close()));
});
