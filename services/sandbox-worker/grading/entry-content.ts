import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { FolderEntry } from '../../shared/sample/folder.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';

/** A file of a sample, which must still be what it was when the sample was read. */
export async function entryContent(
  { folder }: SampleFolder,
  entry: Extract<FolderEntry, { kind: 'file' }>,
): Promise<Buffer> {
  const content = await readEntry(join(folder, entry.path));
  // A verdict names the sample by its digest, so nothing else may be run.
  if (createHash('sha256').update(content).digest('hex') === entry.sha256) return content;
  throw new DomainError('INTERNAL', `${entry.path} of the sample has changed since it was read`);
}

async function readEntry(path: string): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}
