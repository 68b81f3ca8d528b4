import { create } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type {
  BuildSampleImageResponse,
  ValidateSampleContentResponse,
  WorkerService,
} from '../../../gen/assay/internal/v1/worker_pb.js';
import {
  BuildProgressSchema,
  BuildStep,
  BuiltImageSchema,
  CandidateGradingSchema,
  CandidateKind,
  SampleValidationSchema,
} from '../../../gen/assay/v1/sample_pb.js';
import { Verdict } from '../../../gen/assay/v1/verification_pb.js';
import type { BuildProgress } from '../sample/sample-images.ts';
import type { WorkerSamples } from '../sample/worker-samples.ts';
import { adversaryPrefix, type CandidateName, isAdversary } from '../validation/candidate.ts';
import type { CandidateGrading, Validator } from '../validation/validator.ts';
import { createNewsChannel, type NewsChannel } from './news-channel.ts';

const steps = {
  fetching: BuildStep.FETCHING,
  environment: BuildStep.ENVIRONMENT,
  code: BuildStep.CODE,
  manifest: BuildStep.MANIFEST,
} as const;

const kinds: Readonly<Record<string, CandidateKind>> = {
  empty: CandidateKind.EMPTY,
  oracle: CandidateKind.ORACLE,
  honest: CandidateKind.HONEST,
};

type BuildNews = BuildSampleImageResponse['news'];
type ValidationNews = ValidateSampleContentResponse['news'];
type Calls = Pick<ServiceImpl<typeof WorkerService>, 'buildSampleImage' | 'validateSampleContent'>;

export interface SampleCallDeps {
  readonly samples: WorkerSamples;
  readonly validate: Validator;
  /** Lines of a build that wait for a reader. */
  readonly progressLines: number;
}

/** The worker's calls that have to do with samples. */
export function createSampleCalls({ samples, validate, progressLines }: SampleCallDeps): Calls {
  const { cache, images } = samples;
  const told = <News extends BuildNews | ValidationNews>(work: (channel: NewsChannel<News>) => Promise<void>) =>
    tell(createNewsChannel<News>(progressLines), work);
  return {
    buildSampleImage: ({ contentDigest, project }, { signal }) =>
      told(async (channel: NewsChannel<BuildNews>) => {
        const sample = await cache.folder(contentDigest);
        const report = (progress: BuildProgress) => channel.send({ case: 'progress', value: toProgress(progress) });
        const imageId = await images.ensure(sample, project, report, signal);
        const image = images.nameOf(sample.digests.image);
        channel.send({ case: 'built', value: create(BuiltImageSchema, { image, imageId }) });
      }),
    validateSampleContent: ({ contentDigest, repetitionCount: repetitions, project }, { signal }) =>
      told(async (channel: NewsChannel<ValidationNews>) => {
        const sample = await cache.folder(contentDigest);
        const outcome = await validate({
          ...{ sample, project, repetitions, signal },
          tell(news) {
            if (news.kind === 'grading') channel.send({ case: 'grading', value: toGrading(news.grading) });
            else channel.send({ case: 'progress', value: toProgress(news.progress) });
          },
        });
        const value = create(SampleValidationSchema, {
          ...outcome,
          gradingCount: outcome.gradings,
          problems: [...outcome.problems],
        });
        channel.send({ case: 'outcome', value });
      }),
  };
}

/** What the work sends, as it comes; ends or fails with the work. */
async function* tell<News>(
  channel: NewsChannel<News>,
  work: (channel: NewsChannel<News>) => Promise<void>,
): AsyncGenerator<{ news: News }> {
  work(channel).then(
    () => channel.close(),
    (error: unknown) => channel.close(error),
  );
  for await (const news of channel) yield { news };
}

function toProgress({ step, line }: BuildProgress) {
  return create(BuildProgressSchema, { step: steps[step], line });
}

function toGrading(grading: CandidateGrading) {
  const { candidate, attempt, verdict, reason, deviations, failures, durationMs } = grading;
  return create(CandidateGradingSchema, {
    ...candidateOf(candidate),
    ...{ attempt, reason },
    verdict: Verdict[verdict],
    deviations: [...deviations],
    failedTests: [...failures],
    duration: durationFromMs(Math.round(durationMs)),
  });
}

function candidateOf(name: CandidateName) {
  if (isAdversary(name)) return { kind: CandidateKind.ADVERSARY, adversary: name.slice(adversaryPrefix.length) };
  return { kind: kinds[name] ?? CandidateKind.UNSPECIFIED, adversary: '' };
}
