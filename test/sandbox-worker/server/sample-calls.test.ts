import { expect, test } from 'vitest';
import type { BuildSampleImageResponse } from '../../../gen/assay/internal/v1/worker_pb.js';
import { BuildStep } from '../../../gen/assay/v1/sample_pb.js';
import type { BuildProgress } from '../../../services/sandbox-worker/sample/sample-images.ts';
import type { WorkerSamples } from '../../../services/sandbox-worker/sample/worker-samples.ts';
import { createSampleCalls, type SampleCallDeps } from '../../../services/sandbox-worker/server/sample-calls.ts';

/** The news of a build that prints all of it while its reader has taken one line only. */
async function newsOf(
  printed: readonly BuildProgress[],
  progressLines: number,
): Promise<BuildSampleImageResponse['news'][]> {
  const begun = Promise.withResolvers<void>();
  const images = {
    nameOf: () => 'image',
    async ensure(_sample: unknown, _project: string, tell: (news: BuildProgress) => void) {
      tell({ step: 'fetching', line: 'first' });
      await begun.promise;
      for (const each of printed) tell(each);
      return 'sha256:1';
    },
  };
  const samples = { cache: { folder: async () => ({ digests: {} }) }, images } as unknown as WorkerSamples;
  const { buildSampleImage } = createSampleCalls({ samples, progressLines } as SampleCallDeps);
  const context = { signal: new AbortController().signal } as Parameters<typeof buildSampleImage>[1];
  const stream = buildSampleImage({ contentDigest: '' } as never, context);
  const news: BuildSampleImageResponse['news'][] = [];
  for await (const each of stream) {
    news.push(each.news as BuildSampleImageResponse['news']);
    begun.resolve();
  }
  return news;
}

const linesOf = (news: Awaited<ReturnType<typeof newsOf>>) =>
  news.flatMap(({ case: kind, value }) => (kind === 'progress' ? [value] : []));

test('a reader that is too slow for a build is told how many lines it missed, and the first and last of them', async () => {
  const printed = Array.from({ length: 5_000 }, (_, at): BuildProgress => ({ step: 'code', line: `${at}` }));
  const news = await newsOf([{ step: 'environment', line: 'once' }, ...printed], 100);
  const lines = linesOf(news);
  expect(lines.length).toBeLessThanOrEqual(102);
  expect(lines.reduce((sum, { omittedLineCount }) => sum + 1 + omittedLineCount, 0)).toBe(5_002);
  expect(lines.slice(0, 4).map(({ line }) => line)).toEqual(['first', 'once', '0', '1']);
  expect(lines.at(-1)?.line).toBe('4999');
  expect(lines.filter(({ omittedLineCount }) => omittedLineCount > 0)).toHaveLength(1);
  expect(news.at(-1)?.case).toBe('built');
});

test('no step is left out, however little a reader takes', async () => {
  const printed = ['environment', 'code', 'manifest'].flatMap((step) =>
    Array.from({ length: 500 }, (_, at) => ({ step, line: `${at}` }) as BuildProgress),
  );
  const steps = linesOf(await newsOf(printed, 10)).map(({ step }) => step);
  expect(new Set(steps)).toEqual(
    new Set([BuildStep.FETCHING, BuildStep.ENVIRONMENT, BuildStep.CODE, BuildStep.MANIFEST]),
  );
});
