import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSample } from '../../services/shared/sample/read-sample.ts';
import { gradeSample, oracle } from '../samples/grade-sample.ts';
import { buildSampleImage } from '../samples/sample-image.ts';

const root = new URL('../../datasets/examples', import.meta.url).pathname;
const slow = { timeout: 900_000 };

describe.each(readdirSync(root).sort())('examples/%s', (id) => {
  test('fails just the tests that it is about as it is, and passes with its solution', slow, async () => {
    const folder = await readSample(join(root, id));
    const image = await buildSampleImage(folder);
    const empty = await gradeSample(folder, image, 'true');
    const passing = empty.tests.filter(({ role, status }) => (status === 'passed') !== (role === 'pass_to_pass'));
    expect(passing).toEqual([]);
    expect(empty).toMatchObject({ verdict: 'FAILED', assurance: 'ISOLATED' });
    const solved = await gradeSample(folder, image, oracle);
    expect(solved.tests.filter(({ role, status }) => (status === 'passed') === (role === 'sentinel_fail'))).toEqual([]);
    expect(solved).toMatchObject({ verdict: 'PASSED', assurance: 'ISOLATED' });
  });
});
