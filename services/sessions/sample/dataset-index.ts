import { watch } from 'node:fs';
import type { FolderLimits } from '../../shared/sample/folder.ts';
import { listDatasetNames, type ScannedDataset, type ScannedFolder, scanDataset } from './dataset-scan.ts';
import { createSampleCatalog, type SampleCatalog } from './sample-catalog.ts';

export interface DatasetIndexDeps {
  readonly root: string;
  readonly limits: FolderLimits;
  /** A folder that turned out not to be a sample. */
  readonly onProblem: (problem: string) => void;
  /** The root cannot be read or watched; what is known is kept, and it is tried again. */
  readonly onError: (error: unknown) => void;
  /** How long changes may still come before they are looked at. */
  readonly settleMs?: number;
  /** How often to look without being told of a change: watching a tree misses some. */
  readonly rescanMs?: number;
}

/** The samples below a root: read at the start, and again whenever something changed there. */
export interface DatasetIndex {
  /** The newest complete view; waits only for the first. */
  catalog(): Promise<SampleCatalog>;
  /** Looks now. */
  refresh(): Promise<void>;
  close(): void;
}

export function createDatasetIndex(deps: DatasetIndexDeps): DatasetIndex {
  const { root, settleMs = 200, rescanMs = 30_000 } = deps;
  let datasets: readonly ScannedDataset[] = [];
  let catalog: SampleCatalog | undefined;
  let running: Promise<void> | undefined;
  let again = false;
  let settling: NodeJS.Timeout | undefined;

  const scan = async (): Promise<void> => {
    const known = new Map(datasets.flatMap(({ folders }) => folders.map((folder) => [folder.path, folder])));
    const found: ScannedDataset[] = [];
    for (const name of await listDatasetNames(root)) found.push(await scanDataset(root, name, deps.limits, known));
    report(found, known, deps.onProblem);
    const same = catalog !== undefined && sameFolders(found, known);
    datasets = found;
    if (!same) catalog = createSampleCatalog(found);
  };
  const run = async (): Promise<void> => {
    do {
      again = false;
      await scan().catch(deps.onError);
    } while (again);
    catalog ??= createSampleCatalog([]);
    running = undefined;
  };
  const refresh = (): Promise<void> => {
    if (running === undefined) running = run();
    else again = true;
    return running;
  };
  const changed = (): void => {
    clearTimeout(settling);
    settling = setTimeout(() => void refresh(), settleMs).unref();
  };
  const stopWatching = watchTree(root, changed, deps.onError);
  const timer = setInterval(() => void refresh(), rescanMs).unref();
  const first = refresh();
  return {
    async catalog() {
      if (catalog === undefined) await first;
      return catalog ?? createSampleCatalog([]);
    },
    refresh,
    close() {
      clearTimeout(settling);
      clearInterval(timer);
      stopWatching();
    },
  };
}

function watchTree(root: string, changed: () => void, onError: (error: unknown) => void): () => void {
  try {
    const watcher = watch(root, { recursive: true, persistent: false }, changed);
    watcher.on('error', onError);
    return () => watcher.close();
  } catch (error) {
    // A root that is not there yet is found by looking from time to time.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') onError(error);
    return () => {};
  }
}

function report(
  found: readonly ScannedDataset[],
  known: ReadonlyMap<string, ScannedFolder>,
  onProblem: (problem: string) => void,
): void {
  for (const folder of found.flatMap(({ folders }) => folders)) {
    if (!folder.result.ok && known.get(folder.path) !== folder) onProblem(folder.result.problem);
  }
}

function sameFolders(found: readonly ScannedDataset[], known: ReadonlyMap<string, ScannedFolder>): boolean {
  const folders = found.flatMap((dataset) => dataset.folders);
  return folders.length === known.size && folders.every((folder) => known.get(folder.path) === folder);
}
