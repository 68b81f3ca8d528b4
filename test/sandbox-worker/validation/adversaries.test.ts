import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { createSealer } from '../../../services/sandbox-worker/submission/seal.ts';
import { createSubmissionThreads } from '../../../services/sandbox-worker/submission/submission-threads.ts';
import { type CandidateGrading, createValidator } from '../../../services/sandbox-worker/validation/validator.ts';
import { mebibyte, nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost, type Small } from '../grading/grading-host.ts';
import { createSampleImage } from '../submission/sample-image.ts';

const all = await createGradingHost();
const { engine, containers, manifests, store, grader } = all;
const stagingDirectory = join(all.host.directory, 'validations');
const sealer = createSealer({ engine, manifests, threads: createSubmissionThreads(), stagingDirectory });

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

async function validate({ folder, image }: Small) {
  const images = { ensure: async () => image };
  const defaultLimits = { cpus: 1, memoryBytes: 256 * mebibyte, diskBytes: 128 * mebibyte, pids: 64 };
  const validator = createValidator({
    ...{ engine, containers, sealer, grader, images, defaultLimits },
    ...{ slots: 1, sharePercent: 75, perProject: 1, timeoutMs: 120_000 },
    withStore: (work) => work(store),
  });
  const gradings: CandidateGrading[] = [];
  const { signal } = new AbortController();
  const outcome = await validator({
    ...{ sample: folder, project: 'alpha', repetitions: 1, signal },
    tell: (news) => news.kind === 'grading' && void gradings.push(news.grading),
  });
  return { ...outcome, graded: gradings.map(({ candidate }) => candidate) };
}

const noOracle = 'it has no oracle, so nothing shows that it can be solved';

describe('the adversaries of a validation', { timeout: 120_000 }, () => {
  test('are all tried, however many tests there are to forge', async () => {
    const tests = Array.from({ length: 4_000 }, (_, index) => `test ${index} of ${'many '.repeat(8)}`);
    const reports = [{ format: 'tap', path: 'report.tap' }];
    const fail_to_pass = { assurance: 'ISOLATED', tests };
    const { graded, problems } = await validate(
      await all.sample({ command: 'exit 1', reports, fail_to_pass }, { none: '' }),
    );
    expect(graded).toContain('adversary: planted reports');
    expect(problems).toEqual([noOracle]);
  });

  test('are a problem where one could not be tried', async () => {
    const reports = [{ format: 'tap', path: 'dir' }];
    const fail_to_pass = { assurance: 'ISOLATED', tests: ['it works'] };
    const small = await all.sample({ command: 'exit 1', reports, fail_to_pass }, { none: '' });
    const { graded, problems, valid } = await validate({ ...small, image: await createSampleImage(all.host) });
    expect(graded).not.toContain('adversary: planted reports');
    expect(valid).toBe(false);
    expect(problems).toEqual([noOracle, expect.stringMatching(/planted reports cannot be applied .*\bdir\b/)]);
  });

  test('may be such as cannot be submitted', async () => {
    const rules = { forbid_paths: ['reward.txt'] };
    const fail_to_pass = { assurance: 'ISOLATED', tests: ['exit status'] };
    const reports = [{ format: 'exit-status' }];
    const small = await all.sample({ ...rules, command: 'exit 1', reports, fail_to_pass }, { none: '' });
    const { graded, problems } = await validate(small);
    expect(graded).toHaveLength(4);
    expect(problems).toEqual([noOracle]);
  });
});
