import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { ValidationEvent } from '../../clients/typescript/index.ts';
import { runCaptured } from '../cli/captured-terminal.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { runDirectory, runId } from '../run.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
const slow = { timeout: 300_000 };
let datasets: string;
let stack: TestStack;

function writeSample(
  id: string,
  change: (read: (name: string) => string) => Record<string, string> = () => ({}),
): void {
  const folder = join(datasets, 'examples', id);
  cpSync(shipped, folder, { recursive: true });
  writeFileSync(join(folder, 'code/RUN'), `${runId()}\n`);
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
  writeFileSync(join(folder, 'sample.yaml'), read('sample.yaml').replace('id: hello-fix', `id: ${id}`));
  for (const [name, text] of Object.entries(change(read))) writeFileSync(join(folder, name), text);
}

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  mkdirSync(join(datasets, 'examples'));
  writeSample('hello-fix');
  // Its solution does not solve it, and one of the tests that must fail first does not.
  writeSample('wrong', (read) => ({
    'oracle/fix.patch': read('oracle/fix.patch').replace('high + 1', 'high + 2'),
    'sample.yaml': read('sample.yaml')
      .replace(
        '      - a range of one number is that number\n',
        '      - a range of one number is that number\n      - counts include both ends\n',
      )
      .replace(/(pass_to_pass:[\s\S]*?)\n {6}- counts include both ends\n/, '$1\n'),
  }));
  writeSample('unpatchable', (read) => ({ 'oracle/fix.patch': read('oracle/fix.patch').replace('low, high', 'a, b') }));
  stack = await startTestStack({ env: { sessions: { ASSAY_DATASETS: datasets } } });
});
afterAll(async () => {
  const docker = new Docker({ socketPath: inject('setup').dockerSocket, host: undefined });
  // They share one image: it holds neither tests nor solution.
  for await (const event of stack.client.samples.build({ dataset: 'examples', id: 'hello-fix' })) {
    if (event.type === 'built') await docker.getImage(event.image).remove({ force: true });
  }
  await stack.stop();
  rmSync(datasets, { recursive: true, force: true });
});

const validate = (id: string, repetitions: number): Promise<ValidationEvent[]> =>
  Array.fromAsync(stack.client.samples.validate({ dataset: 'examples', id }, { repetitions }));

describe('validating a sample', () => {
  test('grades nothing, the solution, and the solution with tests of its own, each so often', slow, async () => {
    const events = await validate('hello-fix', 2);
    const gradings = events.filter((event) => event.type === 'grading');
    expect(
      gradings.map(({ kind, adversary, attempt, verdict }) => [kind, adversary, attempt, verdict].join(' ')),
    ).toEqual([
      'EMPTY  1 FAILED',
      'EMPTY  2 FAILED',
      'ORACLE  1 PASSED',
      'ORACLE  2 PASSED',
      'HONEST  1 PASSED',
      'HONEST  2 PASSED',
      'ADVERSARY planted reports 1 FAILED',
      'ADVERSARY hooks that end the runner 1 FAILED',
      'ADVERSARY shadowed modules 1 FAILED',
      'ADVERSARY programs that say yes 1 FAILED',
    ]);
    expect(gradings[0]?.failedTests.toSorted()).toEqual([
      'a range of one number is that number',
      'the last number is part of the sum',
    ]);
    const outcome = { valid: true, flakeRate: 0, gradingCount: 10, problems: [], time: expect.any(Date) };
    expect(events.at(-1)).toEqual({ type: 'outcome', ...outcome });
    const name = { dataset: 'examples', id: 'hello-fix' };
    expect((await stack.client.samples.get(name)).validation).toEqual(outcome);
    expect(readdirSync(join(stack.stack.dataDir, 'worker/validations'), { recursive: true })).toEqual(['staging']);
  });

  test('tells what is wrong with one that cannot be trusted', slow, async () => {
    const outcome = (await validate('wrong', 1)).at(-1);
    expect(outcome).toMatchObject({ type: 'outcome', valid: false, gradingCount: 7 });
    expect(outcome?.type === 'outcome' && outcome.problems.join('\n')).toMatch(
      /empty: counts include both ends passes before anything was done\noracle: expected PASSED, found FAILED/,
    );
    const { code, stdout } = await runCaptured(
      ['samples', 'validate', 'examples/unpatchable', '--repeat', '1'],
      stack.endpoint,
      '',
      stack.key,
    );
    expect(code).toBe(1);
    expect(stdout.toString()).toMatch(/examples\/unpatchable +- +- +1\/1 FAILED +4\/4 FAILED +0 +NOT VALID/);
    expect(stdout.toString()).toContain('oracle cannot be applied (exit code 1)');
  });

  test('is for graders, and so is its outcome', async () => {
    const agent = await stack.clientWith({ scopes: ['AGENT'] });
    const name = { dataset: 'examples', id: 'hello-fix' };
    await expect(Array.fromAsync(agent.samples.validate(name))).rejects.toMatchObject({ reason: 'SCOPE_MISSING' });
    expect((await agent.samples.get(name)).validation).toBeUndefined();
    const often = stack.client.samples.validate(name, { repetitions: 101 });
    await expect(Array.fromAsync(often)).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED' });
  });
});
