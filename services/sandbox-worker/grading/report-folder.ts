import { closeSync, readSync } from 'node:fs';
import { fromText } from '../submission/byte-path.ts';
import { type HeldDirectory, holdDirectory } from '../submission/held-directory.ts';
import { graderUser, reportsDirectory } from './grading-place.ts';

export type ReportBytes =
  | { readonly ok: true; readonly bytes: Buffer }
  /** Why there is nothing that could be believed. */
  | { readonly ok: false; readonly reason: string };

/**
 * Reads one file of the report folder of a container whose processes are all gone, from its upper directory. The folder
 * was made there, so all that is in it is there too. Whoever wrote it may have wanted to lead the reader elsewhere.
 */
export function readReportFile(upper: string, path: string, limitBytes: number): ReportBytes {
  const held: HeldDirectory[] = [holdDirectory(upper)];
  const segments = [...reportsDirectory.split('/'), ...path.split('/')].filter((part) => part !== '' && part !== '.');
  const name = fromText(segments.pop() ?? '');
  try {
    for (const segment of segments) {
      const next = held.at(-1)?.directory(fromText(segment));
      if (next === undefined) return missing(`${segment} is no folder`);
      held.push(next);
    }
    return readFrom(held.at(-1) as HeldDirectory, name, limitBytes);
  } finally {
    for (const directory of held) directory.close();
  }
}

function readFrom(directory: HeldDirectory, name: ReturnType<typeof fromText>, limitBytes: number): ReportBytes {
  let found: ReturnType<HeldDirectory['stat']>;
  try {
    found = directory.stat(name);
  } catch (error) {
    if (['ENOENT', 'ENAMETOOLONG'].includes((error as NodeJS.ErrnoException).code ?? '')) return missing('no report');
    throw error;
  }
  if (!found.isFile()) return missing('it is no regular file');
  if (found.nlink !== 1) return missing('it has a second name');
  if (found.uid !== graderUser.uid) return missing(`user ${found.uid} wrote it, not the grader`);
  if (found.size > limitBytes) return missing(`${found.size} bytes, more than ${limitBytes}`);
  const descriptor = directory.file(name, found);
  try {
    const bytes = Buffer.alloc(found.size);
    let read = 0;
    for (let got = 1; got > 0 && read < bytes.length; read += got)
      got = readSync(descriptor, bytes, read, bytes.length - read, null);
    return { ok: true, bytes: bytes.subarray(0, read) };
  } finally {
    closeSync(descriptor);
  }
}

function missing(reason: string): ReportBytes {
  return { ok: false, reason };
}
