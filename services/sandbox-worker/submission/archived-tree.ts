import { closeSync, openSync, type Stats, writeSync } from 'node:fs';
import { join as joinHost } from 'node:path';
import { type BytePath, isPlain, parentOf } from './byte-path.ts';
import type { HeldDirectory } from './held-directory.ts';
import { InvalidSubmission } from './rules.ts';
import { TarError, type TarHeader, typeFlags } from './tar-header.ts';
import { readTar, type TarEntry } from './tar-reader.ts';
import type { EntryKind } from './tree-entry.ts';

export interface TreeOptions {
  /** An empty directory of this host, for the contents of files. */
  readonly contents: string;
  /** What is left out, with all that is below it. */
  readonly leaves: (path: BytePath) => boolean;
  /** Whose contents are kept. */
  readonly keeps: (path: BytePath) => boolean;
  /** Of all that is kept together. */
  readonly bytes: number;
  readonly entries: number;
  readonly checkTime: () => void;
}

interface Node {
  readonly kind: EntryKind;
  readonly header: TarHeader;
  readonly children: Map<BytePath, Node>;
  /** What all names of a file share. */
  readonly file: { readonly number: number; names: number; readonly kept: boolean };
}

const kinds: Readonly<Record<string, EntryKind>> = {
  [typeFlags.file]: 'file',
  [typeFlags.directory]: 'directory',
  [typeFlags.symlink]: 'symlink',
};

/**
 * A directory of a container out of the tar stream that an engine makes of it, to be looked at as if it were held open. The
 * stream is made of what an agent left there: it is read as somebody else's. A hard link from outside of it cannot be seen.
 */
export async function readArchivedTree(tar: AsyncIterable<Buffer>, options: TreeOptions): Promise<HeldDirectory> {
  const nodes = new Map<BytePath, Node>();
  let bytes = 0;
  for await (const entry of readTar(tar)) {
    options.checkTime();
    const path = pathOf(entry.header.name);
    const parent = path === '' ? undefined : nodes.get(parentOf(path));
    if (path !== '' && (parent === undefined || options.leaves(path))) continue;
    if (nodes.size >= options.entries) throw tooMany('TOO_MANY_FILES', path, 'too many files');
    const node = nodeOf(entry.header, nodes, path, options.keeps(path));
    if (path === '' && node.kind !== 'directory') throw noDirectory();
    if (node.kind === 'file' && node.file.kept && node.file.names === 1) {
      bytes += entry.header.size;
      // Before it is read: a hole may be of any size.
      if (bytes > options.bytes) throw tooMany('TOO_MANY_BYTES', path, 'more bytes than a submission may have');
      await keepContent(entry, contentPath(options.contents, node), options.checkTime);
    }
    nodes.set(path, node);
    parent?.children.set(path.slice(path.lastIndexOf('/') + 1), node);
  }
  const root = nodes.get('');
  if (root === undefined) throw noDirectory();
  return held(root, options.contents);
}

/** Without the first part, which is the directory itself. */
function pathOf(name: BytePath): BytePath {
  const plain = name.replace(/\/+$/, '');
  if (!isPlain(plain)) throw new TarError('a tar stream of a container has a path that leaves it');
  return plain.includes('/') ? plain.slice(plain.indexOf('/') + 1) : '';
}

function nodeOf(header: TarHeader, nodes: ReadonlyMap<BytePath, Node>, path: BytePath, kept: boolean): Node {
  if (header.type === typeFlags.hardLink) {
    const first = nodes.get(pathOf(header.linkName));
    if (first === undefined || !first.file.kept) {
      const message = 'a hard link to a file outside of the submission; type: cp it, and move the copy in its place';
      throw new InvalidSubmission('HARD_LINK', path, message);
    }
    first.file.names += 1;
    return first;
  }
  const kind = kinds[header.type] ?? 'other';
  return { kind, header, children: new Map(), file: { number: nodes.size, names: 1, kept } };
}

async function keepContent({ body }: TarEntry, to: string, checkTime: () => void): Promise<void> {
  const descriptor = openSync(to, 'wx', 0o600);
  try {
    await body((piece) => {
      for (let sent = 0; sent < piece.length; ) sent += writeSync(descriptor, piece, sent);
      checkTime();
    });
  } finally {
    closeSync(descriptor);
  }
}

function contentPath(directory: string, { file }: Node): string {
  return joinHost(directory, String(file.number));
}

function held(node: Node, contents: string): HeldDirectory {
  const at = (name: BytePath): Node => {
    const found = node.children.get(name);
    if (found === undefined) throw new Error('a name that its directory does not have');
    return found;
  };
  return {
    names: (most) => (node.children.size > most ? undefined : [...node.children.keys()].sort()),
    stat: (name) => statsOf(at(name)),
    target: (name) => at(name).header.linkName,
    directory(name) {
      const child = node.children.get(name);
      return child?.kind === 'directory' ? held(child, contents) : undefined;
    },
    file: (name) => openSync(contentPath(contents, at(name)), 'r'),
    stats: () => statsOf(node),
    close() {},
  };
}

/** What is looked at of them. */
function statsOf({ kind, header: { mode, uid, gid, size }, file }: Node): Stats {
  const is = (one: EntryKind) => (): boolean => kind === one;
  const kindOf = { isFile: is('file'), isDirectory: is('directory'), isSymbolicLink: is('symlink') };
  return { ...kindOf, mode, uid, gid, size, dev: 0, ino: file.number, nlink: file.names } as unknown as Stats;
}

function tooMany(reason: 'TOO_MANY_FILES' | 'TOO_MANY_BYTES', path: BytePath, message: string): InvalidSubmission {
  return new InvalidSubmission(reason, path, message);
}

export function noDirectory(path: BytePath = ''): InvalidSubmission {
  const message = 'the working directory is no directory any more; expected it, without links on the way to it';
  return new InvalidSubmission('WORKING_DIRECTORY', path, message);
}
