import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Graded } from '../../../services/sandbox-worker/grading/grader.ts';
import { readSample } from '../../../services/shared/sample/read-sample.ts';
import { buildSampleImage } from '../../samples/sample-image.ts';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost, type Small } from './grading-host.ts';

const path = new URL('../../../datasets/examples/hello-fix', import.meta.url).pathname;
const all = await createGradingHost();
let small: Small;
let oracle: string;

beforeAll(async () => {
  const folder = await readSample(path);
  small = { folder, image: await buildSampleImage(folder) };
  oracle = `cd /workspace && git apply <<'PATCH'\n${readFileSync(join(path, 'oracle/fix.patch'), 'utf8')}PATCH`;
});

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const rows = ({ judgement }: Graded) => judgement.tests.map(({ role, status }) => `${role} ${status}`);

describe('the example hello-fix', () => {
  test('fails just the tests that it is about when nothing was done', async () => {
    const graded = await all.grade(small, 'true');
    expect(graded.judgement).toMatchObject({ verdict: 'FAILED', trainable: true, assurance: 'ISOLATED', reward: 0 });
    expect(rows(graded)).toEqual([
      ...['fail_to_pass failed', 'fail_to_pass failed'],
      ...['pass_to_pass passed', 'pass_to_pass passed', 'pass_to_pass passed'],
      'sentinel_fail failed',
    ]);
    expect(graded.runs.map(({ name, command }) => [name, command?.end])).toEqual([
      ['tests', { kind: 'exited', code: 1 }],
      ['sentinel_fail', { kind: 'exited', code: 1 }],
    ]);
  });

  test('passes with its solution, and tells what was used and where the time went', async () => {
    const graded = await all.grade(small, oracle);
    expect(graded.judgement).toMatchObject({ verdict: 'PASSED', assurance: 'ISOLATED', reward: 1 });
    expect(graded.cpuMs).toBeGreaterThan(10);
    expect(graded.peakMemoryBytes).toBeGreaterThan(1_000_000);
    expect(graded.steps.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['create', 'apply', 'start', 'connect', 'spawner', 'run', 'kill', 'read']),
    );
    expect(graded.notes).toEqual([expect.stringMatching(/^the submission changes \d+ paths, with \d+ bytes/)]);
  });
});
