import type { SampleName } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { CatalogEntry, SampleCatalog } from './sample-catalog.ts';

/** A sample by its name; the newest version where none is given. DATASET_NOT_FOUND, SAMPLE_NOT_FOUND. */
export function findSample(
  catalog: SampleCatalog,
  { datasetId, sampleId, version }: Pick<SampleName, 'datasetId' | 'sampleId' | 'version'>,
): { entry: CatalogEntry; folder: SampleFolder } {
  if (!catalog.has(datasetId)) throw noDataset(datasetId);
  const entry = catalog.get(datasetId, sampleId);
  const folder = version === '' ? entry?.newest : entry?.versions.find(({ sample }) => sample.version === version);
  if (entry !== undefined && folder !== undefined) return { entry, folder };
  const has = entry === undefined ? 'ListSamples shows what there is' : `there are ${versionsOf(entry)}`;
  const what = version === '' || entry === undefined ? `sample ${sampleId}` : `version ${version} of ${sampleId}`;
  throw new DomainError('SAMPLE_NOT_FOUND', `no ${what} in ${datasetId}; ${has}`, {
    dataset_id: datasetId,
    sample_id: sampleId,
  });
}

export function noDataset(datasetId: string): DomainError {
  const message = `no dataset ${datasetId}; ListDatasets shows what there is`;
  return new DomainError('DATASET_NOT_FOUND', message, { dataset_id: datasetId });
}

function versionsOf(entry: CatalogEntry): string {
  return entry.versions
    .slice(0, 10)
    .map(({ sample }) => sample.version)
    .join(', ');
}
