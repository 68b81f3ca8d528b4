import { createHash } from 'node:crypto';
import type { FolderEntry } from './folder.ts';

/** `sha256:<hex>` over everything in a folder: paths, kinds, executable bits, contents. Owners and times do not count. */
export function digestOfEntries(entries: readonly FolderEntry[]): string {
  return digestOf('assay sample 1', entries.map(entryLine));
}

/** The digest of a list of texts; their boundaries count. */
export function digestOf(purpose: string, parts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const part of [purpose, ...parts]) hash.update(`${Buffer.byteLength(part)}:`).update(part);
  return `sha256:${hash.digest('hex')}`;
}

export function entryLine(entry: FolderEntry): string {
  switch (entry.kind) {
    case 'directory':
      return `directory\0${entry.path}`;
    case 'link':
      return `link\0${entry.path}\0${entry.target}`;
    case 'file':
      return `file\0${entry.path}\0${entry.executable ? 'x' : '-'}\0${entry.bytes}\0${entry.sha256}`;
  }
}

/** The same text for the same value, whatever the order of its keys. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : inner,
  );
}

/** The entries at or below a path. */
export function entriesBelow(entries: readonly FolderEntry[], path: string): FolderEntry[] {
  if (path === '.') return [...entries];
  return entries.filter((entry) => entry.path === path || entry.path.startsWith(`${path}/`));
}
