import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { canonicalJson, digestOf, digestOfEntries, entriesBelow, entryLine } from './digest.ts';
import { type FolderEntry, type FolderLimits, scanFolder } from './folder.ts';
import { imageDigest } from './image-recipe.ts';
import { parseSample, sampleFileBytes, sampleFileName } from './parse-sample.ts';
import { type Problem, SampleError } from './sample-error.ts';
import type { Sample } from './sample-schema.ts';

/** A sample as it lies on disk, checked. */
export interface SampleFolder {
  readonly folder: string;
  readonly sample: Sample;
  readonly entries: readonly FolderEntry[];
  readonly digests: SampleDigests;
}

export interface SampleDigests {
  /** Everything in the folder. */
  readonly content: string;
  /** What the image is made from: two samples that differ in their tests share an image. */
  readonly image: string;
  /** How submissions are graded: the `verification` part and the hidden tests. */
  readonly verification: string;
}

export const defaultFolderLimits: FolderLimits = { bytes: 256 * 2 ** 20, files: 20_000 };

/** Reads and checks a sample's folder. Throws a SampleError that tells all that is wrong. */
export async function readSample(folder: string, limits = defaultFolderLimits): Promise<SampleFolder> {
  const entries = await scanFolder(folder, limits);
  const manifest = entries.find((entry) => entry.path === sampleFileName);
  if (manifest?.kind !== 'file') {
    const found = manifest === undefined ? 'nothing' : `a ${manifest.kind}`;
    throw new SampleError(folder, [{ file: sampleFileName, path: '', expected: 'a file', found }]);
  }
  const sample = parseSample(await readRegularFile(join(folder, sampleFileName), sampleFileBytes), folder);
  const problems = [...missingParts(sample, entries), ...exposedParts(sample)];
  if (problems.length > 0) throw new SampleError(folder, problems);
  const tests = entriesBelow(entries, sample.verification.tests).map(entryLine);
  return {
    folder,
    sample,
    entries,
    digests: {
      content: digestOfEntries(entries),
      image: imageDigest(sample, entries),
      verification: digestOf('assay verification 1', [canonicalJson(sample.verification), ...tests]),
    },
  };
}

/** At most `limit` bytes and one more, so that the reader of them sees that there were too many. */
async function readRegularFile(path: string, limit: number): Promise<Buffer> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(limit + 1);
    let held = 0;
    for (;;) {
      const { bytesRead } = await handle.read(buffer, held, buffer.length - held);
      if (bytesRead === 0 || held === buffer.length) return buffer.subarray(0, held);
      held += bytesRead;
    }
  } finally {
    await handle.close();
  }
}

/** Whatever `sample.yaml` names must be in the folder, as what it is named for. */
function missingParts(sample: Sample, entries: readonly FolderEntry[]): Problem[] {
  const kinds = new Map(entries.map((entry) => [entry.path, entry.kind]));
  const problems: Problem[] = [];
  const require = (path: string, kind: 'file' | 'directory', key: string): void => {
    const found = kinds.get(path);
    if (found === kind) return;
    const expected = kind === 'file' ? 'a file of the sample' : 'a folder of the sample';
    const what = found === undefined ? 'none' : `a ${found}`;
    problems.push({ file: sampleFileName, path: key, expected, found: `${JSON.stringify(path)}, which is ${what}` });
  };
  sample.codebase.forEach((part, index) => {
    if (part.from === 'files') require(part.path, 'directory', `codebase.${index}.path`);
    if (part.from === 'patch') require(part.path, 'file', `codebase.${index}.path`);
  });
  if (sample.environment.dockerfile !== undefined) {
    require(sample.environment.dockerfile, 'file', 'environment.dockerfile');
  }
  require(sample.verification.tests, 'directory', 'verification.tests');
  const { oracle } = sample;
  if (oracle === undefined) return problems;
  if ('patch' in oracle) require(oracle.patch, 'file', 'oracle.patch');
  if ('script' in oracle) require(oracle.script, 'file', 'oracle.script');
  if ('files' in oracle) require(oracle.files, 'directory', 'oracle.files');
  return problems;
}

/** What goes into the image, or to an agent, must not hold the hidden tests, the oracle or a patch, which may be the fix. */
function exposedParts(sample: Sample): Problem[] {
  const { oracle, environment } = sample;
  const patches = sample.codebase.flatMap((part) => (part.from === 'patch' ? [part.path] : []));
  const hidden = [sample.verification.tests, ...(oracle === undefined ? [] : Object.values(oracle)), ...patches];
  const shown = sample.codebase.flatMap((part, index): [string, string][] =>
    part.from === 'files' ? [[`codebase.${index}.path`, part.path]] : [],
  );
  if (environment.dockerfile !== undefined) {
    shown.push(['environment.dockerfile', posix.dirname(environment.dockerfile)]);
  }
  return shown
    .filter(([, path]) => hidden.some((other) => overlap(path, other)))
    .map(([key, path]) => {
      const expected = 'a folder apart from hidden tests, oracle and patches';
      return { file: sampleFileName, path: key, expected, found: `the folder ${JSON.stringify(path)}` };
    });
}

function overlap(a: string, b: string): boolean {
  return a === '.' || b === '.' || a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}
