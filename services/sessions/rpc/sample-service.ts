import { create } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import type { SampleService } from '../../../gen/assay/v1/sample_pb.js';
import { HeartbeatSchema } from '../../../gen/assay/v1/types_pb.js';
import { briefly } from '../../shared/sample/build-failure.ts';
import type { ValidationStore } from '../../shared/store/validation-store.ts';
import { requireCaller } from '../auth/caller.ts';
import type { SampleBuilder } from '../sample/build-sample.ts';
import type { DatasetIndex } from '../sample/dataset-index.ts';
import { findSample, noDataset } from '../sample/find-sample.ts';
import { listSamples } from '../sample/list-samples.ts';
import { taskArchive, wholeArchive } from '../sample/sample-archive.ts';
import { detailOf } from '../sample/sample-view.ts';
import type { SampleValidator } from '../sample/validate-sample.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkListSamplesRequest, checkRepetitions, checkSampleName } from '../validation/sample-request.ts';
import { withHeartbeats } from './heartbeats.ts';

export interface SampleServiceDeps {
  readonly index: DatasetIndex;
  readonly tokens: PageTokens;
  readonly build: SampleBuilder;
  readonly validate: SampleValidator;
  readonly validations: ValidationStore;
}

const heartbeat = () => ({ case: 'heartbeat', value: create(HeartbeatSchema) }) as const;

export function createSampleService(deps: SampleServiceDeps): ServiceImpl<typeof SampleService> {
  const { index, tokens, build, validate, validations } = deps;
  return {
    async listDatasets(_, context) {
      const { grader } = requireCaller(context);
      const { datasets } = await index.catalog();
      return {
        datasets: datasets.map(({ dataset, sampleCount, problems }) => {
          return { datasetId: dataset, sampleCount, problems: grader ? [...problems] : [] };
        }),
      };
    },
    async listSamples(request, context) {
      checkListSamplesRequest(request);
      const { grader } = requireCaller(context);
      const catalog = await index.catalog();
      if (request.datasetId !== '' && !catalog.has(request.datasetId)) throw noDataset(request.datasetId);
      return listSamples(catalog, tokens, request, grader);
    },
    async getSample(request, context) {
      const name = checkSampleName(request.sample);
      const { grader } = requireCaller(context);
      const { entry, folder } = findSample(await index.catalog(), name);
      const sample = detailOf(entry, folder, grader, request.hints);
      const validation = grader ? await validations.get(folder.digests.content) : undefined;
      return { sample: validation === undefined ? sample : { ...sample, validation } };
    },
    async *downloadSample(request, context) {
      const name = checkSampleName(request.sample);
      const { grader } = requireCaller(context);
      const { folder } = findSample(await index.catalog(), name);
      const sample = { ...name, version: folder.sample.version };
      const head = { contentDigest: folder.digests.content, sample, complete: grader };
      yield { part: { case: 'head', value: head } };
      for await (const data of grader ? wholeArchive(folder) : taskArchive(folder)) {
        yield { part: { case: 'data', value: data } };
      }
    },
    async *buildSample(request, context) {
      const name = checkSampleName(request.sample);
      const { grader, project } = requireCaller(context);
      const { folder } = findSample(await index.catalog(), name);
      const told = new Set<string>();
      try {
        for await (const news of withHeartbeats(build(folder, project, context.signal), heartbeat)) {
          if (grader || news.case !== 'progress') {
            yield { news };
            continue;
          }
          const { workerId, step } = news.value;
          const key = `${workerId} ${step}`;
          if (told.has(key)) continue;
          told.add(key);
          yield { news: { case: 'progress', value: { workerId, step, line: '' } } };
        }
      } catch (error) {
        throw grader ? error : briefly(error);
      }
    },
    async *validateSample(request, context) {
      const name = checkSampleName(request.sample);
      const repetitions = checkRepetitions(request.repetitionCount);
      const { project } = requireCaller(context);
      const { folder } = findSample(await index.catalog(), name);
      const validation = validate(folder, project, repetitions, context.signal);
      for await (const news of withHeartbeats(validation, heartbeat)) yield { news };
    },
  };
}
