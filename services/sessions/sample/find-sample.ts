import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { CatalogEntry, SampleCatalog } from './sample-catalog.ts';

/** A sample by its name; the newest version where none is given. DATASET_NOT_FOUND, SAMPLE_NOT_FOUND. */
export function findSample(
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

export function noDataset(dataset: string): DomainError {
  return new DomainError('DATASET_NOT_FOUND', `no dataset ${dataset}; ListDatasets shows what there is`, { dataset });
}

function versionsOf(entry: CatalogEntry): string {
  return entry.versions
    .slice(0, 10)
    .map(({ sample }) => sample.version)
    .join(', ');
}
