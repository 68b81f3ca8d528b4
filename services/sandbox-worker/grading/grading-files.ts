import { chmod, chown, lchown, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { FolderEntry } from '../../shared/sample/folder.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { openArchivedFiles } from '../docker/archived-files.ts';
import { toHostId } from '../docker/host-ids.ts';
import type { ApplyPlace } from '../submission/apply-work.ts';
import { entryContent } from './entry-content.ts';
import { graderArchive } from './grader-archive.ts';
import { graderHome, graderUser, reportsDirectory, temporaryDirectory, testsDirectory } from './grading-place.ts';

/**
 * Places the hidden tests and an empty report folder below the root of a container in which nothing ran yet. All of it is
 * the grader's, and nobody else may look at it.
 */
export async function placeGraderFiles(place: ApplyPlace, folder: SampleFolder): Promise<void> {
  if ('archived' in place) return openArchivedFiles(place.archived).write('', graderArchive(folder));
  const root = 'merged' in place ? place.merged : place.upper;
  // An image may have something of that name.
  if ('merged' in place) await rm(join(root, graderHome), { recursive: true, force: true });
  const owner = 'merged' in place ? toHostId(place.ids, graderUser.uid) : graderUser.uid;
  for (const directory of [graderHome, testsDirectory, reportsDirectory, temporaryDirectory]) {
    await makeDirectory(join(root, directory), owner);
  }
  const { tests } = folder.sample.verification;
  for (const entry of entriesBelow(folder.entries, tests)) {
    const below = tests === '.' ? entry.path : entry.path.slice(tests.length + 1);
    if (below !== '') await placeEntry(folder, entry, join(root, testsDirectory, below), owner);
  }
}

async function placeEntry(folder: SampleFolder, entry: FolderEntry, to: string, owner: number): Promise<void> {
  if (entry.kind === 'directory') return makeDirectory(to, owner);
  if (entry.kind === 'link') {
    await symlink(entry.target, to);
    await lchown(to, owner, owner);
    return;
  }
  await writeFile(to, await entryContent(folder, entry), { flag: 'wx', mode: 0o600 });
  await chown(to, owner, owner);
  if (entry.executable) await chmod(to, 0o700);
}

async function makeDirectory(path: string, owner: number): Promise<void> {
  await mkdir(path, { mode: 0o700 });
  await chown(path, owner, owner);
}
