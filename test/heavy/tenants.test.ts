import { afterAll, beforeAll, expect, onTestFailed, test } from 'vitest';
import { type Client, createClient, type Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { tellErrors } from './service-errors.ts';
import { startGreedyNeighbour } from './tenants/greedy-neighbour.ts';
import { greedyRows } from './tenants/greedy-row.ts';
import { measureTenant, type Seen } from './tenants/measured-tenant.ts';

/** How many times slower than alone each figure may be beside a greedy project. */
const allowed: Readonly<Record<keyof Seen, number>> = { p50: 3, p99: 10, create: 3 };
const figures = Object.keys(allowed) as (keyof Seen)[];

let stack: TestStack;
let beta: Client;
let session: Session;
const table: string[] = [];

async function keyOf(project: string): Promise<string> {
  return (await stack.client.keys.create({ project, scopes: ['AGENT', 'GRADER'] })).secret;
}

beforeAll(async () => {
  // As an operator has it who sets nothing.
  stack = await startTestStack({ env: { worker: { ASSAY_WARM_POOL: 'base=2', ASSAY_GRADING_POOL: '2' } } });
  beta = createClient({ endpoint: stack.endpoint, apiKey: await keyOf('beta') });
  session = await beta.sessions.create({});
  // The first thousands of commands pay for compiling.
  for (let count = 0; count < 3_000; count++) await session.run(['true']);
});
afterAll(async () => {
  const head = ['row', 'p50 alone, beside, times', 'p99', 'create p50', 'steps of alpha', 'refused'];
  console.log([head.join(' | '), head.map(() => '---').join(' | '), ...table].map((line) => `| ${line} |`).join('\n'));
  beta?.close();
  await stack?.stop();
});

const ms = (value: number): string => (value < 100 ? value.toFixed(1) : value.toFixed(0));

test.each(Object.keys(greedyRows))('beside %s of another project a command and a create stay quick', async (row) => {
  onTestFailed(() => tellErrors(stack.stack.dataDir));
  const project = `alpha-${row.replaceAll(' ', '-')}`;
  const key = await keyOf(project);
  const neighbour = await startGreedyNeighbour(row, stack.endpoint, key);
  const alone = await measureTenant(beta, session);
  await neighbour.begin();
  const beside = await measureTenant(beta, session).finally(() => neighbour.stop());
  const { done, refused, refusal } = await neighbour.stop();
  await closeSessions(key);
  const ratios = figures.map((figure) => beside[figure] / alone[figure]);
  const cells = figures.map(
    (figure, index) => `${ms(alone[figure])}, ${ms(beside[figure])}, ${(ratios[index] as number).toFixed(1)}×`,
  );
  table.push([row, ...cells, done, refused > 0 ? `${refused} (${refusal})` : 0].join(' | '));
  console.log(table.at(-1));
  // Steps that take long need not have ended, but most must not have been refused.
  expect(refused > 0 ? done : 1, refusal).toBeGreaterThan(0);
  const over = figures.filter((figure, index) => (ratios[index] as number) > allowed[figure]);
  expect(over, table.at(-1)).toEqual([]);
});

/** What a row leaves would be a load beside the next one. */
async function closeSessions(key: string): Promise<void> {
  using client = createClient({ endpoint: stack.endpoint, apiKey: key });
  for await (const { id } of client.sessions.list({ states: ['CREATING', 'READY'] }))
    await (await client.sessions.get(id)).close();
}
