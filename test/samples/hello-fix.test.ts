import { beforeAll, describe, expect, test } from 'vitest';
import { readSample, type SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { gradeInContainer } from '../runner/grading-container.ts';
import { gradeSample, oracle } from './grade-sample.ts';
import { buildSampleImage } from './sample-image.ts';

const path = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
let folder: SampleFolder;
let image: string;

beforeAll(async () => {
  folder = await readSample(path);
  image = await buildSampleImage(folder);
});

const rows = (judged: { tests: readonly { name: string; status: string; role: string | undefined }[] }) =>
  judged.tests.map(({ role, status }) => `${role} ${status}`);

// Side by side, since a grading waits for its containers most of its time; each of them then takes longer.
describe.concurrent('examples/hello-fix', () => {
  test('fails just the tests that it is about, as it is', async () => {
    const judged = await gradeSample(folder, image, 'true');
    expect(judged).toMatchObject({ verdict: 'FAILED', trainable: true, assurance: 'ISOLATED' });
    expect(rows(judged)).toEqual([
      ...[
        'fail_to_pass failed',
        'fail_to_pass failed',
        'pass_to_pass passed',
        'pass_to_pass passed',
        'pass_to_pass passed',
      ],
      'sentinel_fail failed',
    ]);
  });

  test('passes with its solution, at ISOLATED', async () => {
    const judged = await gradeSample(folder, image, oracle);
    expect(judged).toMatchObject({
      verdict: 'PASSED',
      isSuccess: true,
      assurance: 'ISOLATED',
      reasons: ['every required test passed'],
    });
  });

  test('passes with another solution that brings its own tests', async () => {
    const change = `sed -i 's/return sum(range(low, high))/return (low + high) * count(low, high) \\/\\/ 2/' ranges.py
      printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test_own(self): pass\\n' > test_more.py`;
    expect((await gradeSample(folder, image, change)).verdict).toBe('PASSED');
  });

  test.each([
    ['a program that always prints the same', 'printf "print(6)\\n" > ranges.py'],
    ['a program that prints what the tests might like', 'printf "print(\'PASSED\')\\n" > ranges.py'],
    [
      'a module that shadows one of the tests',
      'printf "import os; os._exit(0)\\n" | tee assay_isolated.py json.py sitecustomize.py conftest.py',
    ],
    [
      'a report that was there before',
      'mkdir -p reports; printf "1..1\\nok 1 - x\\n" | tee reports/report.tap junit.xml',
    ],
    ['a program that kills the spawner', 'printf "import os; os.system(\'pkill -9 isolated\')\\n" > ranges.py'],
    ['nothing that runs', 'rm ranges.py'],
  ])('does not pass with %s', async (_, change) => {
    const judged = await gradeSample(folder, image, change);
    expect(judged.verdict).toBe('FAILED');
    expect(judged.reward).toBe(0);
  });

  test('has one commit and nothing of the tests or the solution in its image', async () => {
    const { stdout } = await gradeInContainer({
      image,
      command: `$ASSAY_ISOLATED run --timeout 60 -- sh -c '
        git log --format=%s; git status --short; git reflog | wc -l; ls -a; stat -c %U . ranges.py .git
        grep -rl "high + 1))" / --include=*.py --include=*.patch 2>/dev/null | grep workspace; find / -name sentinel.py 2>/dev/null; true'`,
    });
    expect(stdout.trim().split('\n')).toEqual([
      ...[
        'The code as it is',
        '1',
        '.',
        '..',
        '.git',
        'README.md',
        'ranges.py',
        'test_ranges.py',
        'agent',
        'agent',
        'agent',
      ],
    ]);
  });
});
