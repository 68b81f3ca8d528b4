import MiniSearch from 'minisearch';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { ScannedDataset } from './dataset-scan.ts';
import { compareVersions } from './version-order.ts';

/** All versions of one sample, the newest first. */
export interface CatalogEntry {
  /** `dataset/id`. */
  readonly key: string;
  readonly newest: SampleFolder;
  readonly versions: readonly SampleFolder[];
}

export interface Match {
  readonly entry: CatalogEntry;
  /** How well it fits the words that were searched for; 0 where none were. */
  readonly score: number;
}

/** What lay below the root at one moment. */
export interface SampleCatalog {
  readonly datasets: readonly {
    readonly dataset: string;
    readonly sampleCount: number;
    readonly problems: readonly string[];
  }[];
  get(dataset: string, id: string): CatalogEntry | undefined;
  has(dataset: string): boolean;
  /** The samples in which all words occur: the best first, then by key. Without words all of them, by key. */
  find(words: string): readonly Match[];
}

export function createSampleCatalog(scanned: readonly ScannedDataset[]): SampleCatalog {
  const entries = new Map<string, CatalogEntry>();
  const datasets = scanned.map(({ dataset, folders }) => {
    const versions = Map.groupBy(
      folders.flatMap(({ result }) => (result.ok ? [result.sample] : [])),
      ({ sample }) => `${dataset}/${sample.id}`,
    );
    for (const [key, found] of versions) entries.set(key, entryOf(key, found));
    const problems = folders.flatMap(({ result }) => (result.ok ? [] : [result.problem]));
    return { dataset, sampleCount: versions.size, problems };
  });
  const ordered = [...entries.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  const search = createSearch(ordered);
  const names = new Set(datasets.map(({ dataset }) => dataset));
  return {
    datasets,
    get: (dataset, id) => entries.get(`${dataset}/${id}`),
    has: (dataset) => names.has(dataset),
    find(words) {
      if (words.trim() === '') return ordered.map((entry) => ({ entry, score: 0 }));
      return search
        .search(words, { prefix: true, combineWith: 'AND' })
        .map(({ id, score }) => ({ entry: entries.get(id as string), score }))
        .filter((match): match is Match => match.entry !== undefined)
        .sort((a, b) => b.score - a.score || (a.entry.key < b.entry.key ? -1 : 1));
    },
  };
}

function entryOf(key: string, found: readonly SampleFolder[]): CatalogEntry {
  const versions = found.toSorted((a, b) => compareVersions(b.sample.version, a.sample.version));
  return { key, newest: versions[0] as SampleFolder, versions };
}

function createSearch(entries: readonly CatalogEntry[]): MiniSearch {
  const search = new MiniSearch({
    fields: ['id', 'title', 'tags', 'language', 'instruction'],
    idField: 'key',
    searchOptions: { boost: { id: 4, title: 3, tags: 2 } },
  });
  search.addAll(
    entries.map(({ key, newest: { sample } }) => {
      const { id, title, tags, language, instruction } = sample;
      return { key, id, title, tags: tags.join(' '), language, instruction };
    }),
  );
  return search;
}
