import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  symlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join as joinPath } from 'node:path';
import type { Baseline } from './baseline.ts';
import { type BytePath, bytesOf, hostPath, parentOf } from './byte-path.ts';
import { InvalidSubmission } from './rules.ts';
import type { ContentTaker } from './submission-reader.ts';
import { type TreeEntry, takenMode } from './tree-entry.ts';

const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** ext4 allows 65,000 names for one file. */
const linksPerWhiteout = 30_000;

/**
 * Writes into the overlay upper directory of a container that never ran and is not mounted. Every directory on the way is
 * made here, from what the image has or the submission brought, so nothing is ever reached through a link.
 */
export interface UpperWriter {
  directory(path: BytePath, entry: Attributes): void;
  symlink(path: BytePath, entry: Attributes, target: BytePath): void;
  file(path: BytePath, entry: Attributes): ContentTaker;
  /** Hides what the image has at the path: a whiteout, as overlayfs itself makes it. */
  hide(path: BytePath): void;
  close(): void;
}

type Attributes = Pick<TreeEntry, 'kind' | 'mode' | 'uid' | 'gid'>;

export function createUpperWriter(upper: string, baseline: Baseline): UpperWriter {
  const made = new Set<BytePath>(['']);
  /** Files that are being written. One that is never finished would keep the disk from being freed. */
  const unfinished = new Set<number>();
  const whiteouts = createWhiteouts(joinPath(dirname(upper), 'assay-whiteout'));
  const at = (path: BytePath): Buffer => hostPath(upper, path);

  const makeDirectory = (path: BytePath, { mode, uid, gid }: Attributes, permissions: number): void => {
    if (!made.has(path)) {
      try {
        mkdirSync(at(path));
      } catch (error) {
        // The engine makes the working directory when it creates the container.
        if (!isTaken(error)) throw error;
        if (!lstatSync(at(path)).isDirectory()) throw twoThings(path);
      }
    }
    made.add(path);
    chownSync(at(path), uid, gid);
    chmodSync(at(path), mode & permissions);
  };
  const reach = (path: BytePath): void => {
    if (made.has(path)) return;
    reach(parentOf(path));
    const known = baseline.at(path)?.entry;
    if (known?.kind !== 'directory') {
      throw twoThings(path);
    }
    makeDirectory(path, known, 0o7777);
  };
  return {
    directory(path, entry) {
      reach(parentOf(path));
      makeDirectory(path, entry, 0o777);
    },
    symlink(path, { uid, gid }, target) {
      reach(parentOf(path));
      symlinkSync(bytesOf(target), at(path));
      lchownSync(at(path), uid, gid);
    },
    file(path, { kind, mode, uid, gid }) {
      reach(parentOf(path));
      const descriptor = openSync(at(path), newFile, 0o600);
      unfinished.add(descriptor);
      return {
        piece(bytes) {
          for (let sent = 0; sent < bytes.length; ) sent += writeSync(descriptor, bytes, sent);
        },
        end() {
          fchownSync(descriptor, uid, gid);
          fchmodSync(descriptor, takenMode(kind, mode));
          unfinished.delete(descriptor);
          closeSync(descriptor);
        },
      };
    },
    hide(path) {
      reach(parentOf(path));
      try {
        whiteouts.place(at(path));
      } catch (error) {
        throw isTaken(error) ? twoThings(path) : error;
      }
    },
    close() {
      for (const descriptor of unfinished) closeSync(descriptor);
      whiteouts.close();
    },
  };
}

function isTaken(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EEXIST';
}

function twoThings(path: BytePath): InvalidSubmission {
  return new InvalidSubmission('MALFORMED', path, 'a directory and something else, or changed and deleted, at once');
}

/** Node cannot make a device, but it can give one more names, as overlayfs does with its own. */
function createWhiteouts(template: string) {
  let left = 0;
  const renew = (): void => {
    rmSync(template, { force: true });
    const { status, stderr, error } = spawnSync('mknod', ['--', template, 'c', '0', '0'], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`mknod failed: ${error?.message ?? stderr.trim()}`);
    left = linksPerWhiteout;
  };
  return {
    place(path: Buffer): void {
      if (left === 0) renew();
      linkSync(template, path);
      left -= 1;
    },
    close: () => rmSync(template, { force: true }),
  };
}
