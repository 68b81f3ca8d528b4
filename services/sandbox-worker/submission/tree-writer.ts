import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  lchownSync,
  openSync,
  symlinkSync,
  writeSync,
} from 'node:fs';
import { type HostIds, toHostId } from '../docker/host-ids.ts';
import type { Baseline } from './baseline.ts';
import { type BytePath, bytesOf, hostPath, parentOf } from './byte-path.ts';
import { InvalidSubmission } from './rules.ts';
import type { ContentTaker } from './submission-reader.ts';
import { type TreeEntry, takenMode } from './tree-entry.ts';

const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Writes a submission over the files of an image, below the root of a container in which nothing ran yet. Every directory
 * on the way is one that the image has or the submission brought, so nothing is ever reached through a link.
 */
export interface TreeWriter {
  directory(path: BytePath, entry: Attributes): void;
  symlink(path: BytePath, entry: Attributes, target: BytePath): void;
  file(path: BytePath, entry: Attributes & Pick<TreeEntry, 'size'>): ContentTaker;
  /** Takes away what the image has at the path. */
  hide(path: BytePath): void;
  /** To be called when all was written, where it is not there before. */
  finish?(): Promise<void>;
  close(): void;
}

export type Attributes = Pick<TreeEntry, 'kind' | 'mode' | 'uid' | 'gid'>;

/** How the files of the image lie below the place that is written to. */
export interface Ground {
  /** Gets a directory of the image ready to be written into; false where there is something else by now. */
  enter(path: Buffer, known: Attributes): boolean;
  /** Makes a directory, or keeps the one that is there; false where the submission put something else there. */
  directory(path: Buffer): boolean;
  /** Before something that is no directory is made there. */
  clear(path: Buffer): void;
  hide(path: Buffer): void;
  close(): void;
}

/** `ids`: whose ids the root shows. */
export function createTreeWriter(root: string, baseline: Baseline, ground: Ground, ids?: HostIds): TreeWriter {
  const made = new Set<BytePath>(['']);
  const written = new Set<BytePath>();
  /** Files that are being written. One that is never finished would keep the disk from being freed. */
  const unfinished = new Set<number>();
  const at = (path: BytePath): Buffer => hostPath(root, path);

  const reach = (path: BytePath): void => {
    if (made.has(path)) return;
    reach(parentOf(path));
    const known = baseline.at(path)?.entry;
    if (known?.kind !== 'directory' || !ground.enter(at(path), known)) throw twoThings(path);
    made.add(path);
  };
  return {
    directory(path, { mode, uid, gid }) {
      reach(parentOf(path));
      if (!ground.directory(at(path))) throw twoThings(path);
      made.add(path);
      chownSync(at(path), toHostId(ids, uid), toHostId(ids, gid));
      chmodSync(at(path), mode & 0o777);
    },
    symlink(path, { uid, gid }, target) {
      reach(parentOf(path));
      ground.clear(at(path));
      symlinkSync(bytesOf(target), at(path));
      written.add(path);
      lchownSync(at(path), toHostId(ids, uid), toHostId(ids, gid));
    },
    file(path, { kind, mode, uid, gid }) {
      reach(parentOf(path));
      ground.clear(at(path));
      const descriptor = openSync(at(path), newFile, 0o600);
      written.add(path);
      unfinished.add(descriptor);
      return {
        piece(bytes) {
          for (let sent = 0; sent < bytes.length; ) sent += writeSync(descriptor, bytes, sent);
        },
        end() {
          fchownSync(descriptor, toHostId(ids, uid), toHostId(ids, gid));
          fchmodSync(descriptor, takenMode(kind, mode));
          unfinished.delete(descriptor);
          closeSync(descriptor);
        },
      };
    },
    hide(path) {
      reach(parentOf(path));
      if (made.has(path) || written.has(path)) throw twoThings(path);
      ground.hide(at(path));
    },
    close() {
      for (const descriptor of unfinished) closeSync(descriptor);
      ground.close();
    },
  };
}

export function twoThings(path: BytePath): InvalidSubmission {
  return new InvalidSubmission('MALFORMED', path, 'a directory and something else, or changed and deleted, at once');
}
