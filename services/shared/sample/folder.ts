import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readdir, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { isRelativePath } from './field.ts';
import { type Problem, SampleError } from './sample-error.ts';

/** What lies in a sample's folder. Nothing is followed: a link is its target's text. */
export type FolderEntry =
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly executable: boolean;
      readonly bytes: number;
      readonly sha256: string;
    };

export interface FolderLimits {
  readonly bytes: number;
  readonly files: number;
}

const depthLimit = 64;
const linkBytes = 1_024;

/**
 * Every entry below the root, in the order of the bytes of their paths. Refuses what cannot be moved safely from one
 * machine to another: devices, sockets and FIFOs, names that are not UTF-8, links that lead out, too much of anything.
 */
export async function scanFolder(root: string, limits: FolderLimits): Promise<FolderEntry[]> {
  const entries: FolderEntry[] = [];
  const total = { bytes: 0 };
  const visit = async (directory: string, depth: number): Promise<void> => {
    if (depth > depthLimit) throw refusal(root, directory, `at most ${depthLimit} nested folders`, 'more');
    for (const { name, path } of await listDirectory(root, directory)) {
      if (entries.length >= limits.files) throw refusal(root, path, `at most ${limits.files} entries`, 'more');
      const entry = await examine(root, path, limits, total);
      entries.push(entry);
      if (entry.kind === 'directory') await visit(directory === '' ? name : `${directory}/${name}`, depth + 1);
    }
  };
  await visit('', 1);
  return entries.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
}

async function listDirectory(root: string, directory: string): Promise<{ name: string; path: string }[]> {
  const names = await readdir(join(root, directory), { encoding: 'buffer' });
  return names.map((bytes) => {
    const name = bytes.toString();
    const path = directory === '' ? name : `${directory}/${name}`;
    const expected = 'a name in UTF-8 without control characters, a path of at most 1024 bytes';
    if (!isUtf8(bytes) || !isRelativePath(path)) throw refusal(root, directory || '.', expected, JSON.stringify(name));
    return { name, path };
  });
}

async function examine(
  root: string,
  path: string,
  limits: FolderLimits,
  total: { bytes: number },
): Promise<FolderEntry> {
  const full = join(root, path);
  // Not followed, and a FIFO without a writer does not hold us up.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(full, flags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ELOOP') return undefined;
    throw refusal(root, path, 'a file, a folder or a link', `one that cannot be opened (${error.code})`);
  });
  if (handle === undefined) return examineLink(root, path);
  try {
    const stat = await handle.stat();
    if (stat.isDirectory()) return { kind: 'directory', path };
    if (!stat.isFile()) throw refusal(root, path, 'a file, a folder or a link', 'a device, socket or FIFO');
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      total.bytes += chunk.length;
      if (total.bytes > limits.bytes) throw refusal(root, path, `at most ${limits.bytes} bytes in all`, 'more');
      hash.update(chunk);
    }
    const executable = (stat.mode & 0o100) !== 0;
    return { kind: 'file', path, executable, bytes, sha256: hash.digest('hex') };
  } finally {
    await handle.close();
  }
}

async function examineLink(root: string, path: string): Promise<FolderEntry> {
  const bytes = await readlink(join(root, path), { encoding: 'buffer' });
  const target = bytes.toString();
  const inside = posix.normalize(posix.join(posix.dirname(path), target));
  const leadsOut = target.startsWith('/') || inside === '..' || inside.startsWith('../');
  if (!isUtf8(bytes) || target === '' || bytes.length > linkBytes || leadsOut) {
    throw refusal(root, path, 'a link to something in the same folder, by a relative path', JSON.stringify(target));
  }
  return { kind: 'link', path, target };
}

function refusal(root: string, path: string, expected: string, found: string): SampleError {
  const problem: Problem = { file: path, path: '', expected, found };
  return new SampleError(root, [problem]);
}
