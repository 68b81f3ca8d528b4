import type { ServiceImpl } from '@connectrpc/connect';
import type { SampleService } from '../../../gen/assay/v1/sample_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { requireCaller } from '../auth/caller.ts';
import type { DatasetIndex } from '../sample/dataset-index.ts';
import { listSamples } from '../sample/list-samples.ts';
import { taskArchive, wholeArchive } from '../sample/sample-archive.ts';
import type { CatalogEntry, SampleCatalog } from '../sample/sample-catalog.ts';
import { detailOf } from '../sample/sample-view.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkListSamplesRequest, checkSampleName } from '../validation/sample-request.ts';

export function createSampleService(index: DatasetIndex, tokens: PageTokens): ServiceImpl<typeof SampleService> {
  return {
    async listDatasets(_, context) {
      const { grader } = requireCaller(context);
      const { datasets } = await index.catalog();
      return {
        datasets: datasets.map(({ dataset, samples, problems }) => {
          return { dataset, samples, problems: grader ? [...problems] : [] };
        }),
      };
    },
    async listSamples(request, context) {
      checkListSamplesRequest(request);
      const { grader } = requireCaller(context);
      const catalog = await index.catalog();
      if (request.dataset !== '' && !catalog.has(request.dataset)) throw noDataset(request.dataset);
      return listSamples(catalog, tokens, request, grader);
    },
    async getSample(request, context) {
      checkSampleName(request);
      const { grader } = requireCaller(context);
      const { entry, folder } = find(await index.catalog(), request);
      return { sample: detailOf(entry, folder, grader, request.hints) };
    },
    async *downloadSample(request, context) {
      checkSampleName(request);
      const { grader } = requireCaller(context);
      const { folder } = find(await index.catalog(), request);
      const { sample, digests } = folder;
      const head = { contentDigest: digests.content, version: sample.version, complete: grader };
      yield { part: { case: 'head', value: head } };
      for await (const data of grader ? wholeArchive(folder) : taskArchive(folder)) {
        yield { part: { case: 'data', value: data } };
      }
    },
  };
}

function find(
  catalog: SampleCatalog,
  { dataset, sampleId, version }: { dataset: string; sampleId: string; version: string },
): { entry: CatalogEntry; folder: SampleFolder } {
  if (!catalog.has(dataset)) throw noDataset(dataset);
  const entry = catalog.get(dataset, sampleId);
  const folder = version === '' ? entry?.newest : entry?.versions.find(({ sample }) => sample.version === version);
  if (entry !== undefined && folder !== undefined) return { entry, folder };
  const has = entry === undefined ? 'ListSamples shows what there is' : `there are ${versionsOf(entry)}`;
  const what = version === '' || entry === undefined ? `sample ${sampleId}` : `version ${version} of ${sampleId}`;
  throw new DomainError('SAMPLE_NOT_FOUND', `no ${what} in ${dataset}; ${has}`, { dataset, sample_id: sampleId });
}

function versionsOf(entry: CatalogEntry): string {
  return entry.versions
    .slice(0, 10)
    .map(({ sample }) => sample.version)
    .join(', ');
}

function noDataset(dataset: string): DomainError {
  return new DomainError('DATASET_NOT_FOUND', `no dataset ${dataset}; ListDatasets shows what there is`, { dataset });
}
