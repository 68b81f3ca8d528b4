import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { type Pack, pack } from 'tar-stream';
import { stringify } from 'yaml';
import { DomainError } from '../../shared/domain-error.ts';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { FolderEntry } from '../../shared/sample/folder.ts';
import { sampleFileName } from '../../shared/sample/parse-sample.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';

const chunkBytes = 65_536;

interface FileHeader {
  readonly name: string;
  readonly mode: number;
  readonly size: number;
  readonly mtime: Date;
}

/** The whole folder as a tar archive. The same sample gives the same bytes. */
export function wholeArchive(folder: SampleFolder): AsyncGenerator<Uint8Array> {
  return archive(folder, folder.entries, undefined);
}

/**
 * What an agent may have: the files of the code, what the environment is built from, and a `sample.yaml` without grading,
 * hints and origin. Everything is named here; what is not named is not sent. A patch is not: it may be the fix, reversed. Nor
 * is code that a later step patches or takes something from: as it lies here it may be mended. A session has what becomes of it.
 */
export function taskArchive(folder: SampleFolder): AsyncGenerator<Uint8Array> {
  const { sample, entries } = folder;
  const { dockerfile } = sample.environment;
  const lastChange = sample.codebase.findLastIndex(({ from }) => from === 'patch' || from === 'remove');
  const codebase = sample.codebase.slice(lastChange + 1).filter((part) => part.from === 'files');
  const changed = sample.codebase.slice(0, lastChange + 1).filter((part) => part.from === 'files');
  const paths = codebase.map(({ path }) => path);
  if (dockerfile !== undefined) paths.push(posix.dirname(dockerfile));
  const below = (path: string): FolderEntry[] => entriesBelow(entries, path);
  const chosen = new Set(paths.flatMap(below)).difference(new Set(changed.flatMap(({ path }) => below(path))));
  const { format, dataset, id, version, language, tags, title, instruction, environment } = sample;
  const shown = { format, dataset, id, version, language, tags, title, instruction, codebase, environment };
  return archive(folder, [...chosen], Buffer.from(stringify(shown)));
}

async function* archive(
  folder: SampleFolder,
  entries: readonly FolderEntry[],
  manifest: Buffer | undefined,
): AsyncGenerator<Uint8Array> {
  const tar = pack();
  const filled = fill(tar, folder, entries, manifest).catch((error: Error) => void tar.destroy(error));
  try {
    for await (const chunk of tar as AsyncIterable<Buffer>) {
      for (let from = 0; from < chunk.length; from += chunkBytes) yield chunk.subarray(from, from + chunkBytes);
    }
  } finally {
    // A reader that goes away leaves nothing open.
    tar.destroy();
    await filled;
  }
}

async function fill(
  tar: Pack,
  { folder }: SampleFolder,
  entries: readonly FolderEntry[],
  manifest: Buffer | undefined,
): Promise<void> {
  const common = { mtime: new Date(0), uid: 0, gid: 0 };
  if (manifest !== undefined) tar.entry({ ...common, name: sampleFileName, mode: 0o644 }, manifest);
  for (const entry of entries) {
    if (entry.kind === 'directory') tar.entry({ ...common, name: `${entry.path}/`, type: 'directory', mode: 0o755 });
    else if (entry.kind === 'link') {
      tar.entry({ ...common, name: entry.path, type: 'symlink', linkname: entry.target, mode: 0o777 });
    } else {
      const header = { ...common, name: entry.path, mode: entry.executable ? 0o755 : 0o644, size: entry.bytes };
      await addFile(tar, header, join(folder, entry.path), entry.sha256);
    }
  }
  tar.finalize();
}

/** What is sent is what the digest was taken of, or nothing whole is sent. */
async function addFile(tar: Pack, header: FileHeader, path: string, sha256: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => {
    throw changed(header.name);
  });
  try {
    const sink = tar.entry({ ...header, uid: 0, gid: 0 });
    // Told of the archive's own end a second time; without a listener that would end the process.
    sink.on('error', () => undefined);
    const hash = createHash('sha256');
    let sent = 0;
    for await (const chunk of handle.createReadStream({ autoClose: false }) as AsyncIterable<Buffer>) {
      sent += chunk.length;
      if (sent > header.size) throw changed(header.name);
      hash.update(chunk);
      if (!sink.write(chunk)) await drained(sink, tar);
    }
    if (sent !== header.size || hash.digest('hex') !== sha256) throw changed(header.name);
    sink.end(undefined);
  } finally {
    await handle.close();
  }
}

function drained(sink: NodeJS.EventEmitter, tar: Pack): Promise<void> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('nobody reads the archive any more'));
    tar.once('close', gone);
    sink.once('drain', () => {
      tar.off('close', gone);
      resolve();
    });
  });
}

function changed(name: string): DomainError {
  const message = `${name} changed while it was read; try again`;
  return new DomainError('SAMPLE_CHANGED', message, { file: name });
}
