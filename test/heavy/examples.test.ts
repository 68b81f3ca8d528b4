import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { readSample, type SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { buildSampleImage } from '../samples/sample-image.ts';
import { nothingLeft } from '../sandbox-worker/docker/scratch-host.ts';
import { createGradingHost } from '../sandbox-worker/grading/grading-host.ts';

const root = new URL('../../datasets/examples', import.meta.url).pathname;
const slow = { timeout: 900_000 };
const all = await createGradingHost();

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

/** Shell text that applies the sample's own solution. */
function solution({ folder, sample }: SampleFolder): string {
  if (sample.oracle === undefined || !('patch' in sample.oracle)) throw new Error('expected an oracle with a patch');
  const patch = readFileSync(join(folder, sample.oracle.patch));
  return `cd ${sample.environment.workdir} && base64 -d <<'END' | git apply\n${patch.toString('base64')}\nEND`;
}

describe.each(readdirSync(root).sort())('examples/%s', (id) => {
  test('fails just the tests that it is about as it is, and passes with its solution', slow, async () => {
    const folder = await readSample(join(root, id));
    const small = { folder, image: await buildSampleImage(folder) };
    const { judgement: empty } = await all.grade(small, 'true');
    const passing = empty.tests.filter(({ role, status }) => (status === 'passed') !== (role === 'pass_to_pass'));
    expect(passing).toEqual([]);
    expect(empty).toMatchObject({ verdict: 'FAILED', assurance: 'ISOLATED' });
    const { judgement: solved } = await all.grade(small, solution(folder));
    expect(solved.tests.filter(({ role, status }) => (status === 'passed') === (role === 'sentinel_fail'))).toEqual([]);
    expect(solved).toMatchObject({ verdict: 'PASSED', assurance: 'ISOLATED' });
  });
});
