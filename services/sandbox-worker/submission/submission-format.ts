import { readSync, writeSync } from 'node:fs';
import { type BytePath, bytesOf, comparePaths } from './byte-path.ts';
import { blockBytes, encodeHeader, padding, type TarHeader, typeFlags } from './tar-header.ts';
import { type TreeEntry, takenMode } from './tree-entry.ts';

/**
 * A submission is a tar file: `assay-submission` with the number of the format, `files/…` in the order of a walk, and
 * `deletions`, each path with a NUL behind it. There is one way to write each content, so its SHA-256 is its name.
 */
export const markName = 'assay-submission';
export const markContent = Buffer.from('1\n');
export const deletionsName = 'deletions';
export const filesPrefix = 'files/';

const copyBuffer = Buffer.allocUnsafeSlow(1024 * 1024);

export function entryHeader(path: BytePath, entry: Omit<TreeEntry, 'content'>, target: BytePath): TarHeader {
  const type = typeFlags[entry.kind as 'file' | 'directory' | 'symlink'];
  const { kind, uid, gid, size } = entry;
  return { name: `${filesPrefix}${path}`, type, mode: takenMode(kind, entry.mode), uid, gid, size, linkName: target };
}

export function plainHeader(name: string, size: number): TarHeader {
  return { name, type: typeFlags.file, mode: 0o644, uid: 0, gid: 0, size, linkName: '' };
}

/** Writes a submission into an open file. */
export interface SubmissionWriter {
  entry(path: BytePath, entry: Omit<TreeEntry, 'content'>, target: BytePath): void;
  content(descriptor: number, size: number): void;
  end(deletions: readonly BytePath[]): void;
}

export function createSubmissionWriter(file: number, checkTime: () => void): SubmissionWriter {
  const small = (name: string, content: Buffer): void => {
    const header = encodeHeader(plainHeader(name, content.length));
    writeAll(file, Buffer.concat([header, content, padding(content.length)]));
  };
  small(markName, markContent);
  return {
    entry: (path, entry, target) => writeAll(file, encodeHeader(entryHeader(path, entry, target))),
    content(descriptor, size) {
      for (let at = 0; at < size; ) {
        const read = readSync(descriptor, copyBuffer, 0, Math.min(copyBuffer.length, size - at), at);
        if (read === 0) throw new Error('a file became shorter while nothing could change it');
        writeAll(file, copyBuffer.subarray(0, read));
        at += read;
        checkTime();
      }
      writeAll(file, padding(size));
    },
    end(deletions) {
      small(deletionsName, encodeDeletions(deletions));
      writeAll(file, Buffer.alloc(2 * blockBytes));
    },
  };
}

export function encodeDeletions(paths: readonly BytePath[]): Buffer {
  return bytesOf(
    paths
      .toSorted(comparePaths)
      .map((path) => `${path}\0`)
      .join(''),
  );
}

function writeAll(file: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
}
