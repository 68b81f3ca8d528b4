import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { type BytePath, comparePaths, isPlain } from './byte-path.ts';
import { type TarHeader, typeFlags } from './tar-header.ts';
import { readTar } from './tar-reader.ts';
import type { EntryKind, TreeEntry } from './tree-entry.ts';

const formatName = 'assay manifest 1';

export type ManifestEntry = readonly [path: BytePath, entry: TreeEntry];

/** A line of the file: path, kind, mode, uid, gid, size, content. */
type Line = readonly [BytePath, EntryKind, number, number, number, number, string];

/** Reads everything that a tar stream of a root holds. */
export async function manifestOf(tar: AsyncIterable<Buffer>): Promise<ManifestEntry[]> {
  const found = new Map<BytePath, TreeEntry>();
  for await (const { header, body } of readTar(tar)) {
    const path = plainName(header.name);
    if (path === undefined) continue;
    const hash = createHash('sha256');
    await body((piece) => hash.update(piece));
    found.set(path, describe(header, hash.digest('hex'), found));
  }
  return [...found].sort(([a], [b]) => comparePaths(a, b));
}

function plainName(name: string): BytePath | undefined {
  const path = name.replace(/^(\.?\/)+/, '').replace(/\/+$/, '');
  if (path === '' || path === '.') return undefined;
  if (!isPlain(path)) throw new Error(`the image has the path ${JSON.stringify(name)}; expected one below its root`);
  return path;
}

function describe(header: TarHeader, hash: string, found: ReadonlyMap<BytePath, TreeEntry>): TreeEntry {
  const { mode, uid, gid, size } = header;
  switch (header.type) {
    case typeFlags.file:
      return { kind: 'file', mode, uid, gid, size, content: hash };
    case typeFlags.directory:
      return { kind: 'directory', mode, uid, gid, size: 0, content: '' };
    case typeFlags.symlink:
      return { kind: 'symlink', mode, uid, gid, size: 0, content: header.linkName };
    case typeFlags.hardLink: {
      const first = found.get(plainName(header.linkName) ?? '');
      if (first === undefined) throw new Error('the image has a hard link to a file that does not come before it');
      return first;
    }
    default:
      return { kind: 'other', mode, uid, gid, size: 0, content: '' };
  }
}

/** Writes it whole or not at all. */
export function writeManifest(file: string, imageId: string, entries: readonly ManifestEntry[]): void {
  const lines = entries.map(([path, { kind, mode, uid, gid, size, content }]) =>
    JSON.stringify([path, kind, mode, uid, gid, size, content] satisfies Line),
  );
  const head = JSON.stringify([formatName, imageId, lines.length]);
  const unfinished = `${file}.${randomBytes(8).toString('hex')}`;
  writeFileSync(unfinished, [head, ...lines, ''].join('\n'), { mode: 0o600 });
  renameSync(unfinished, file);
}

/** What a manifest says of a directory, of all that is below it and of what is above it; of the root (`''`), all. */
export function readManifest(file: string, imageId: string, directory: BytePath): ManifestEntry[] {
  const [head, ...lines] = readFileSync(file, 'utf8').split('\n');
  if (head !== JSON.stringify([formatName, imageId, lines.length - 1])) {
    throw new Error(`the manifest ${file} is not that of image ${imageId}; remove it, and it is made again`);
  }
  const parts = directory.split('/');
  const above = new Set(parts.map((_, depth) => `[${JSON.stringify(parts.slice(0, depth + 1).join('/'))},`));
  const below = `[${JSON.stringify(`${directory}/`).slice(0, -1)}`;
  const wanted = (line: string): boolean =>
    (directory === '' && line !== '') || line.startsWith(below) || above.has(line.slice(0, line.indexOf(',') + 1));
  return lines.filter(wanted).map((line) => {
    const [path, kind, mode, uid, gid, size, content] = JSON.parse(line) as Line;
    return [path, { kind, mode, uid, gid, size, content }];
  });
}
