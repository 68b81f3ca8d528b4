import { createHash } from 'node:crypto';
import { closeSync, readSync, type Stats } from 'node:fs';
import { fromHostId, type HostIds } from '../docker/host-ids.ts';
import type { Baseline, BaselineNode } from './baseline.ts';
import { type BytePath, join } from './byte-path.ts';
import type { ChangeCheck } from './change-check.ts';
import { type HeldDirectory, LeasedFile } from './held-directory.ts';
import { type CompiledRules, InvalidSubmission } from './rules.ts';
import { type EntryKind, sameAttributes, setIdBits, type TreeEntry } from './tree-entry.ts';

/** Takes what differs, in the order of a walk, directories before what is in them. */
export interface ChangeSink {
  entry(path: BytePath, entry: Omit<TreeEntry, 'content'>, target: BytePath): void;
  /** The content of the regular file whose entry came last. */
  content(descriptor: number, size: number): void;
}

export interface DifferenceInput {
  readonly rules: CompiledRules;
  readonly baseline: Baseline;
  /** What the container sees at the working directory, standing still. */
  readonly merged: HeldDirectory;
  /** The same directory of the overlay's upper side; without it everything is compared. */
  readonly upper: HeldDirectory | undefined;
  /** Whose ids `merged` shows. */
  readonly ids?: HostIds | undefined;
  readonly check: ChangeCheck;
  readonly sink: ChangeSink;
  /** Called again and again; throws when it has taken too long. */
  readonly checkTime: () => void;
}

/** Names that are not in the image and are looked at, for each file that a submission may have. */
export const looksPerFile = 10;
const readBuffer = Buffer.allocUnsafeSlow(1024 * 1024);

interface Place {
  readonly path: BytePath;
  readonly merged: HeldDirectory;
  readonly upper: HeldDirectory | undefined;
  readonly node: BaselineNode | undefined;
}

/** Finds what differs from the image and gives it to the sink; the answer is what is gone. */
export function findDifference(input: DifferenceInput): BytePath[] {
  const { rules, baseline, check, sink } = input;
  const deleted: BytePath[] = [];
  const links = createLinkCount();
  /** Directories on the way that the image does not have, to be written once something in them is. */
  const pending: { path: BytePath; entry: Omit<TreeEntry, 'content'> }[] = [];
  let looks = rules.limits.files * looksPerFile;

  const write = (path: BytePath, entry: Omit<TreeEntry, 'content'>, target = ''): void => {
    for (const waiting of pending.splice(0)) write(waiting.path, waiting.entry);
    check.entry(path, entry);
    sink.entry(path, entry, target);
  };
  const tooMany = (path: BytePath): never => {
    throw new InvalidSubmission('TOO_MANY_FILES', path, `more than ${rules.limits.files} files were changed`);
  };
  const list = (directory: HeldDirectory, node: BaselineNode | undefined, path: BytePath): BytePath[] => {
    const names = directory.names(looks + 2 * (node?.children.size ?? 0));
    return names ?? tooMany(path);
  };
  const visitAll = ({ path, merged, upper, node }: Place): void => {
    const names = list(merged, node, path);
    const changed = upper === undefined ? undefined : new Set(list(upper, node, path));
    const present = new Set(names);
    for (const [name, child] of node?.children ?? []) {
      if (present.has(name)) continue;
      for (const gone of deletionsOf(child, join(path, name), rules)) deleted.push(gone);
    }
    for (const name of names) {
      if (changed !== undefined && !changed.has(name)) continue;
      if (node?.children.has(name) !== true) looks -= 1;
      if (looks < 0) tooMany(path);
      visit({ path: join(path, name), merged, upper, node: node?.children.get(name) }, name);
    }
  };
  const visit = (place: Place, name: BytePath): void => {
    const { path, merged } = place;
    input.checkTime();
    if (rules.excluded(path)) return;
    check.path(path);
    const stats = merged.stat(name);
    const entry = describe(stats, input.ids);
    if (entry.kind === 'directory') visitDirectory(place, name, entry);
    else links.see(stats);
    if (entry.kind === 'directory' || !rules.included(path)) return;
    if (entry.kind === 'other' && rules.leavesSpecial) return;
    if (entry.kind === 'file') visitFile(place, name, stats);
    else visitLink(place, entry, entry.kind === 'symlink' ? merged.target(name) : '');
  };
  const visitLink = ({ path, node }: Place, entry: Omit<TreeEntry, 'content'>, target: BytePath): void => {
    const same = node !== undefined && sameAttributes(node.entry, entry) && node.entry.content === target;
    if (!same) write(path, entry, target);
  };
  const visitDirectory = (place: Place, name: BytePath, entry: Omit<TreeEntry, 'content'>): void => {
    const { path, node } = place;
    const known = node?.entry.kind === 'directory' ? node : undefined;
    if (rules.included(path)) {
      if (known === undefined || !sameAttributes(known.entry, entry)) write(path, entry);
    } else if (known === undefined) pending.push({ path, entry });
    const merged = place.merged.directory(name);
    if (merged === undefined) throw new Error('a directory changed while nothing could change it');
    const upper = place.upper?.directory(name);
    try {
      visitAll({ path, merged, upper, node: known });
    } finally {
      merged.close();
      upper?.close();
    }
    if (pending.at(-1)?.path === path) pending.pop();
  };
  const open = (path: BytePath, merged: HeldDirectory, name: BytePath, stats: Stats): number => {
    try {
      return merged.file(name, stats);
    } catch (error) {
      if (!(error instanceof LeasedFile)) throw error;
      // Whoever has the lease is the agent's: it must not make its sealing a failure of ours.
      throw new InvalidSubmission('LEASED', path, 'a process keeps it from being read by a lease; type: kill it');
    }
  };
  const visitFile = ({ path, merged, node }: Place, name: BytePath, stats: Stats): void => {
    const entry = describe(stats, input.ids);
    const known = node?.entry;
    // Before its content is looked at: a file larger than the limit is not read.
    const maySame = known !== undefined && sameAttributes(known, entry) && sameSetId(known, entry);
    const descriptor = open(path, merged, name, stats);
    try {
      if (maySame && hashOf(descriptor, entry.size, input.checkTime) === known.content) return;
      links.expect(stats, path);
      write(path, entry);
      sink.content(descriptor, entry.size);
    } finally {
      closeSync(descriptor);
    }
  };

  visitAll({ path: '', merged: input.merged, upper: input.upper, node: baseline.at(rules.workingDirectory) });
  links.verify();
  for (const path of deleted) check.deletion(path);
  return deleted;
}

function describe(stats: Stats, ids: HostIds | undefined): Omit<TreeEntry, 'content'> {
  const kind: EntryKind = stats.isFile()
    ? 'file'
    : stats.isDirectory()
      ? 'directory'
      : stats.isSymbolicLink()
        ? 'symlink'
        : 'other';
  const owner = { uid: fromHostId(ids, stats.uid), gid: fromHostId(ids, stats.gid) };
  return { kind, mode: stats.mode & 0o7777, ...owner, size: kind === 'file' ? stats.size : 0 };
}

function sameSetId(a: TreeEntry, b: Omit<TreeEntry, 'content'>): boolean {
  return (a.mode & setIdBits) === (b.mode & setIdBits);
}

/** A directory that is gone is one deletion, unless something in it is none of the submission's business. */
function deletionsOf(node: BaselineNode, path: BytePath, rules: CompiledRules): BytePath[] {
  if (rules.excluded(path)) return [];
  const below = [...node.children].map(([name, child]) => {
    const at = join(path, name);
    const found = deletionsOf(child, at, rules);
    return { whole: found.length === 1 && found[0] === at, found };
  });
  if (rules.included(path) && below.every(({ whole }) => whole)) return [path];
  return below.flatMap(({ found }) => found);
}

function hashOf(descriptor: number, size: number, checkTime: () => void): string {
  const hash = createHash('sha256');
  for (let at = 0; at < size; ) {
    const read = readSync(descriptor, readBuffer, 0, readBuffer.length, at);
    if (read === 0) break;
    hash.update(readBuffer.subarray(0, read));
    at += read;
    checkTime();
  }
  return hash.digest('hex');
}

/** A changed file with a name that was not seen is linked from outside of what is submitted. */
function createLinkCount() {
  const seen = new Map<string, number>();
  const expected = new Map<string, { path: BytePath; links: number }>();
  const key = (stats: Stats): string => `${stats.dev}:${stats.ino}`;
  return {
    see(stats: Stats): void {
      if (stats.nlink > 1) seen.set(key(stats), (seen.get(key(stats)) ?? 0) + 1);
    },
    expect(stats: Stats, path: BytePath): void {
      if (stats.nlink > 1) expected.set(key(stats), { path, links: stats.nlink });
    },
    verify(): void {
      for (const [file, { path, links }] of expected) {
        if ((seen.get(file) ?? 0) >= links) continue;
        const message = 'a hard link to a file outside of the submission; type: cp it, and move the copy in its place';
        throw new InvalidSubmission('HARD_LINK', path, message);
      }
    },
  };
}
