import { closeSync, constants, fstatSync, lstatSync, opendirSync, openSync, readlinkSync, type Stats } from 'node:fs';
import { type BytePath, hostPath, toBytePath } from './byte-path.ts';

const noFollow = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;

/**
 * A directory that is held open. What is in it is reached through the descriptor (/proc/self/fd), as openat would: no
 * directory above can be exchanged for a link meanwhile, and no path grows too long. No link is ever followed.
 */
export interface HeldDirectory {
  /** The names in it, sorted as bytes. Beyond `most` of them it stops and gives undefined. */
  names(most: number): BytePath[] | undefined;
  stat(name: BytePath): Stats;
  target(name: BytePath): BytePath;
  /** undefined where the name is no directory. */
  directory(name: BytePath): HeldDirectory | undefined;
  /** A descriptor of the regular file that `seen` describes. Throws LeasedFile where a process keeps it from being opened. */
  file(name: BytePath, seen: Stats): number;
  stats(): Stats;
  close(): void;
}

/** Somebody has a lease on the file (fcntl F_SETLEASE) and stands still: an open would wait for it. */
export class LeasedFile extends Error {
  override readonly name = 'LeasedFile';
}

function openUnleased(path: Buffer): number {
  try {
    return openSync(path, noFollow);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') throw new LeasedFile('a process has a lease on it');
    throw error;
  }
}

/** A directory of this host whose own path is trusted. */
export function holdDirectory(path: string): HeldDirectory {
  return held(openSync(path, noFollow | constants.O_DIRECTORY));
}

function held(descriptor: number): HeldDirectory {
  const self = `/proc/self/fd/${descriptor}`;
  const at = (name: BytePath): Buffer => hostPath(self, name);
  return {
    names(most) {
      // An encoding of 'buffer' is not in the types, though in the documentation.
      const listing = opendirSync(self, { encoding: 'buffer' as BufferEncoding, bufferSize: 1_024 });
      const names: BytePath[] = [];
      try {
        for (let found = listing.readSync(); found !== null; found = listing.readSync()) {
          if (names.length >= most) return undefined;
          names.push(toBytePath(found.name as unknown as Buffer));
        }
      } finally {
        listing.closeSync();
      }
      return names.sort();
    },
    stat: (name) => lstatSync(at(name)),
    target: (name) => toBytePath(readlinkSync(at(name), 'buffer')),
    directory(name) {
      try {
        return held(openSync(at(name), noFollow | constants.O_DIRECTORY));
      } catch (error) {
        if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
        throw error;
      }
    },
    file(name, seen) {
      const opened = openUnleased(at(name));
      const found = fstatSync(opened);
      if (found.isFile() && found.ino === seen.ino && found.dev === seen.dev) return opened;
      closeSync(opened);
      throw new Error('a file changed while nothing could change it');
    },
    stats: () => fstatSync(descriptor),
    close: () => closeSync(descriptor),
  };
}
