import type { DatasetIndex } from './dataset-index.ts';
import type { SampleShelf } from './sample-shelf.ts';

/** Puts a sample's content, as it was once, where workers find it, if its folder still has just that. */
export type ContentProvider = (dataset: string, sampleId: string, contentDigest: string) => Promise<void>;

export function createContentProvider(datasets: DatasetIndex, shelf: SampleShelf): ContentProvider {
  return async (dataset, sampleId, contentDigest) => {
    const entry = (await datasets.catalog()).get(dataset, sampleId);
    const folder = entry?.versions.find(({ digests }) => digests.content === contentDigest);
    // Where it has not, the store may still have it from before.
    if (folder !== undefined) await shelf.provide(folder);
  };
}
