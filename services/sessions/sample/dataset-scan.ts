import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderLimits } from '../../shared/sample/folder.ts';
import { sampleFileName } from '../../shared/sample/parse-sample.ts';
import { readSample, type SampleFolder } from '../../shared/sample/read-sample.ts';
import { SampleError } from '../../shared/sample/sample-error.ts';

/** What a look at one folder gave. `stamp` changes whenever the folder may have changed. */
export interface ScannedFolder {
  readonly path: string;
  readonly stamp: string;
  readonly result:
    | { readonly ok: true; readonly sample: SampleFolder }
    | { readonly ok: false; readonly problem: string };
}

export interface ScannedDataset {
  readonly dataset: string;
  readonly folders: readonly ScannedFolder[];
}

const nameShape = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$/;

/** The folders below the root that are named like datasets. A root that is not there has none. */
export async function listDatasetNames(root: string): Promise<string[]> {
  return (await subfolders(root)).filter((name) => nameShape.test(name)).sort();
}

/**
 * Reads the samples of one dataset: `<id>/sample.yaml`, or `<id>/<version>/sample.yaml` where several versions are kept.
 * What was read before and has the same stamp is taken as it was.
 */
export async function scanDataset(
  root: string,
  dataset: string,
  limits: FolderLimits,
  known: ReadonlyMap<string, ScannedFolder>,
): Promise<ScannedDataset> {
  const folders: ScannedFolder[] = [];
  for (const id of (await subfolders(join(root, dataset))).sort()) {
    if (!nameShape.test(id)) continue;
    for (const version of await versionFolders(join(root, dataset, id))) {
      const path = version === undefined ? join(dataset, id) : join(dataset, id, version);
      const stamp = await stampOf(join(root, path));
      const before = known.get(path);
      folders.push(
        before?.stamp === stamp ? before : await scanFolder(root, path, stamp, { dataset, id, version }, limits),
      );
    }
  }
  return { dataset, folders };
}

interface Expected {
  readonly dataset: string;
  readonly id: string;
  readonly version: string | undefined;
}

async function scanFolder(
  root: string,
  path: string,
  stamp: string,
  expected: Expected,
  limits: FolderLimits,
): Promise<ScannedFolder> {
  try {
    const sample = await readSample(join(root, path), limits);
    const problem = misplaced(path, sample, expected);
    return { path, stamp, result: problem === undefined ? { ok: true, sample } : { ok: false, problem } };
  } catch (error) {
    // Whatever is wrong with one folder is told of that folder; the others are read.
    const message = error instanceof SampleError ? error.message.replaceAll(`${root}/`, '') : (error as Error).message;
    return { path, stamp, result: { ok: false, problem: message } };
  }
}

function misplaced(path: string, { sample }: SampleFolder, expected: Expected): string | undefined {
  const wrong = (key: string, found: string, wanted: string): string =>
    `${path} is not a sample:\n  ${sampleFileName}: ${key}: expected ${wanted}, the name of its folder, found ${found}`;
  if (sample.dataset !== expected.dataset) return wrong('dataset', sample.dataset, expected.dataset);
  if (sample.id !== expected.id) return wrong('id', sample.id, expected.id);
  if (expected.version !== undefined && sample.version !== expected.version) {
    return wrong('version', sample.version, expected.version);
  }
  return undefined;
}

/** `[undefined]` where the folder is itself a sample. */
async function versionFolders(folder: string): Promise<(string | undefined)[]> {
  const own = await stat(join(folder, sampleFileName)).catch(() => undefined);
  if (own !== undefined) return [undefined];
  const versions: string[] = [];
  for (const name of (await subfolders(folder)).sort()) {
    const found = await stat(join(folder, name, sampleFileName)).catch(() => undefined);
    if (nameShape.test(name) && found !== undefined) versions.push(name);
  }
  return versions;
}

async function subfolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}

const stampEntries = 100_000;

/** Names, sizes, modes and times of all that lies in a folder: cheap to take, and different after a change. */
async function stampOf(folder: string): Promise<string> {
  const lines: string[] = [];
  const visit = async (path: string): Promise<void> => {
    for (const entry of await readdir(path, { withFileTypes: true })) {
      if (lines.length > stampEntries) return;
      const full = join(path, entry.name);
      const { size, mode, mtimeMs, ctimeMs, ino } = await stat(full).catch(() => absent);
      lines.push(`${full}\0${entry.isDirectory()}\0${size}\0${mode}\0${mtimeMs}\0${ctimeMs}\0${ino}`);
      if (entry.isDirectory()) await visit(full);
    }
  };
  await visit(folder).catch(() => lines.push('unreadable'));
  return lines.sort().join('\n');
}

const absent = { size: 0, mode: 0, mtimeMs: 0, ctimeMs: 0, ino: 0 };
