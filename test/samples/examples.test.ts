import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSample } from '../../services/shared/sample/read-sample.ts';
import { planRuns } from '../../services/shared/sample/run-plan.ts';

const root = new URL('../../datasets/examples', import.meta.url).pathname;
const ids = readdirSync(root).sort();

describe('the example dataset', () => {
  test.each(ids)('%s is a sample with a solution and sentinels, graded at ISOLATED', async (id) => {
    const { sample } = await readSample(join(root, id));
    expect([sample.dataset, sample.id]).toEqual(['examples', id]);
    expect(sample.oracle).toBeDefined();
    expect(sample.verification.sentinel_fail?.tests).not.toEqual([]);
    expect(new Set(planRuns(sample.verification).map(({ assurance }) => assurance))).toEqual(new Set(['ISOLATED']));
  });

  test('has the languages that it should have', async () => {
    const samples = await Promise.all(ids.map((id) => readSample(join(root, id))));
    const languages = new Set(samples.map(({ sample }) => sample.language));
    expect([...languages].sort()).toEqual(['c', 'java', 'javascript', 'python', 'shell']);
  });
});
