import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, chown, lchown, mkdir, open, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { FolderEntry } from '../../shared/sample/folder.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { ApplyPlace } from '../submission/apply-work.ts';
import { graderHome, graderUser, reportsDirectory, temporaryDirectory, testsDirectory } from './grading-place.ts';

const { uid, gid } = graderUser;

/**
 * Places the hidden tests and an empty report folder below the root of a container in which nothing ran yet. All of it is
 * the grader's, and nobody else may look at it.
 */
export async function placeGraderFiles(place: ApplyPlace, folder: SampleFolder): Promise<void> {
  const root = 'merged' in place ? place.merged : place.upper;
  // An image may have something of that name.
  if ('merged' in place) await rm(join(root, graderHome), { recursive: true, force: true });
  for (const directory of [graderHome, testsDirectory, reportsDirectory, temporaryDirectory]) {
    await makeDirectory(join(root, directory));
  }
  const { tests } = folder.sample.verification;
  for (const entry of entriesBelow(folder.entries, tests)) {
    const below = tests === '.' ? entry.path : entry.path.slice(tests.length + 1);
    if (below !== '') await placeEntry(folder, entry, join(root, testsDirectory, below));
  }
}

async function placeEntry({ folder }: SampleFolder, entry: FolderEntry, to: string): Promise<void> {
  if (entry.kind === 'directory') return makeDirectory(to);
  if (entry.kind === 'link') {
    await symlink(entry.target, to);
    await lchown(to, uid, gid);
    return;
  }
  const content = await readEntry(join(folder, entry.path));
  // A verdict names the sample by its digest, so nothing else may be run.
  if (createHash('sha256').update(content).digest('hex') !== entry.sha256) {
    throw new DomainError('INTERNAL', `${entry.path} of the sample has changed since it was read`);
  }
  await writeFile(to, content, { flag: 'wx', mode: 0o600 });
  await chown(to, uid, gid);
  if (entry.executable) await chmod(to, 0o700);
}

async function makeDirectory(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 });
  await chown(path, uid, gid);
}

async function readEntry(path: string): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}
