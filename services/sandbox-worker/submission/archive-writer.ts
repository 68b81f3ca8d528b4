import { closeSync, createReadStream, openSync, rmSync, writeSync } from 'node:fs';
import type { ArchivedFiles } from '../docker/archived-files.ts';
import type { Baseline } from './baseline.ts';
import { type BytePath, isWithin, join, parentOf } from './byte-path.ts';
import { blockBytes, encodeHeader, padding, type TimedHeader, typeFlags } from './tar-header.ts';
import { readTar } from './tar-reader.ts';
import { takenMode } from './tree-entry.ts';
import { type TreeWriter, twoThings } from './tree-writer.ts';

/** Writes a submission into a tar file, which is then given to the engine to be unpacked in a container in which nothing ran yet. */
export function createArchiveWriter(file: string, baseline: Baseline, files: ArchivedFiles): TreeWriter {
  const tar = createTarFile(file);
  const made = new Set<BytePath>(['']);
  const written = new Set<BytePath>();
  const hidden = new Set<BytePath>();
  const mtime = Math.floor(Date.now() / 1_000);

  const reach = (path: BytePath): void => {
    if (made.has(path)) return;
    reach(parentOf(path));
    if (baseline.at(path)?.entry.kind !== 'directory' || written.has(path)) throw twoThings(path);
    made.add(path);
  };
  return {
    directory(path, { mode, uid, gid }) {
      reach(parentOf(path));
      if (written.has(path)) throw twoThings(path);
      made.add(path);
      tar.header({ name: path, type: typeFlags.directory, mode: mode & 0o777, uid, gid, size: 0, linkName: '', mtime });
    },
    symlink(path, { uid, gid }, linkName) {
      reach(parentOf(path));
      if (made.has(path)) throw twoThings(path);
      written.add(path);
      tar.header({ name: path, type: typeFlags.symlink, mode: 0o777, uid, gid, size: 0, linkName, mtime });
    },
    file(path, { kind, mode, uid, gid, size }) {
      reach(parentOf(path));
      if (made.has(path)) throw twoThings(path);
      written.add(path);
      tar.header({
        name: path,
        type: typeFlags.file,
        mode: takenMode(kind, mode),
        uid,
        gid,
        size,
        linkName: '',
        mtime,
      });
      return { piece: tar.write, end: () => tar.write(padding(size)) };
    },
    hide(path) {
      reach(parentOf(path));
      if (made.has(path) || written.has(path)) throw twoThings(path);
      hidden.add(path);
    },
    async finish() {
      tar.end();
      for (const directory of topmost(hidden)) await rebuild(files, directory, hidden, `${file}.rebuilt`);
      await files.write('', createReadStream(file) as AsyncIterable<Buffer>);
    },
    close() {
      tar.close();
      rmSync(file, { force: true });
    },
  };
}

/** The directories in which something is to be hidden, those below another left out. */
function topmost(hidden: ReadonlySet<BytePath>): BytePath[] {
  const parents = [...new Set([...hidden].map(parentOf))];
  return parents.filter((path) => !parents.some((above) => above !== path && isWithin(path, above)));
}

/**
 * Takes things away: an engine unpacks, and removes only what is in the way of something else. So the directory is replaced by a
 * file, and that by the directory with all that is to stay in it.
 */
async function rebuild(
  files: ArchivedFiles,
  directory: BytePath,
  hidden: ReadonlySet<BytePath>,
  file: string,
): Promise<void> {
  if (directory === '') throw new Error('nothing can be taken away from the root itself; it needs root on the host');
  const above = parentOf(directory);
  const name = directory.slice(above === '' ? 0 : above.length + 1);
  const gone = (path: BytePath): boolean => hidden.has(path) || (path !== '' && gone(parentOf(path)));
  const tar = createTarFile(file);
  /** Names of what is to go that was the first of them: they need the content itself. */
  const orphaned: BytePath[] = [];
  try {
    tar.header({ name, type: typeFlags.file, mode: 0o600, uid: 0, gid: 0, size: 0, linkName: '' });
    // In a file first: the engine neither reads nor writes a container while it does the other.
    await files.read(directory, async (stream) => {
      for await (const { header, headerBytes, body } of readTar(stream)) {
        const path = join(above, header.name.replace(/\/+$/, ''));
        if (gone(path)) continue;
        if (header.type === typeFlags.hardLink && gone(join(above, header.linkName))) {
          orphaned.push(path);
          continue;
        }
        tar.write(headerBytes);
        const size = await measured(body, tar.write);
        tar.write(padding(size));
      }
    });
    for (const path of orphaned) await copyAlone(files, path, above, tar);
    tar.end();
    await files.write(above, createReadStream(file) as AsyncIterable<Buffer>);
  } finally {
    tar.close();
    rmSync(file, { force: true });
  }
}

async function copyAlone(files: ArchivedFiles, path: BytePath, above: BytePath, tar: TarFile): Promise<void> {
  await files.read(path, async (stream) => {
    for await (const { header, body } of readTar(stream)) {
      tar.header({ ...header, name: above === '' ? path : path.slice(above.length + 1) });
      tar.write(padding(await measured(body, tar.write)));
    }
  });
}

async function measured(body: (take: (piece: Buffer) => void) => Promise<void>, take: (piece: Buffer) => void) {
  let size = 0;
  await body((piece) => {
    size += piece.length;
    take(piece);
  });
  return size;
}

type TarFile = ReturnType<typeof createTarFile>;

function createTarFile(path: string) {
  const descriptor = own(() => openSync(path, 'wx', 0o600));
  let open = true;
  const write = (bytes: Buffer): void =>
    own(() => {
      for (let sent = 0; sent < bytes.length; ) sent += writeSync(descriptor, bytes, sent);
    });
  /** Any number of times. */
  const close = (): void => {
    if (open) closeSync(descriptor);
    open = false;
  };
  return {
    write,
    header: (header: TimedHeader) => write(encodeHeader(header)),
    end(): void {
      write(Buffer.alloc(2 * blockBytes));
      close();
    },
    close,
  };
}

/** Without the code of the failure, which would be taken for that of the container's disk, and so for the submission's doing. */
function own<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`the worker's own disk is full or broken: ${(error as Error).message}`, { cause: error });
  }
}
