import { join } from 'node:path';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { fromText } from '../submission/byte-path.ts';
import { blockBytes, encodeHeader, padding, typeFlags } from '../submission/tar-header.ts';
import { entryContent } from './entry-content.ts';
import { graderHome, graderUser, reportsDirectory, temporaryDirectory, testsDirectory } from './grading-place.ts';

/** The grader's files as a tar stream, to be unpacked at the root of a container: the hidden tests and an empty report folder. */
export async function* graderArchive(folder: SampleFolder): AsyncGenerator<Buffer> {
  const mtime = Math.floor(Date.now() / 1_000);
  const header = (path: string, type: string, mode: number, size = 0, target = ''): Buffer =>
    encodeHeader({
      name: fromText(path),
      type,
      mode,
      ...graderUser,
      size,
      linkName: Buffer.from(target).toString('latin1'),
      mtime,
    });
  // An image may have something of that name: a file takes its place, and the directory that of the file.
  yield header(graderHome, typeFlags.file, 0o600);
  for (const directory of [graderHome, testsDirectory, reportsDirectory, temporaryDirectory]) {
    yield header(directory, typeFlags.directory, 0o700);
  }
  const { tests } = folder.sample.verification;
  for (const entry of entriesBelow(folder.entries, tests)) {
    const below = tests === '.' ? entry.path : entry.path.slice(tests.length + 1);
    const to = join(testsDirectory, below);
    if (below === '') continue;
    if (entry.kind === 'directory') yield header(to, typeFlags.directory, 0o700);
    else if (entry.kind === 'link') yield header(to, typeFlags.symlink, 0o777, 0, entry.target);
    else {
      const content = await entryContent(folder, entry);
      yield header(to, typeFlags.file, entry.executable ? 0o700 : 0o600, content.length);
      yield content;
      yield padding(content.length);
    }
  }
  yield Buffer.alloc(2 * blockBytes);
}
