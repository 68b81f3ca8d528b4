import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { isRelativePath } from '../../shared/sample/field.ts';
import type { FolderLimits } from '../../shared/sample/folder.ts';
import { type TarHeader, typeFlags } from '../submission/tar-header.ts';
import { readTar, type TarEntry } from '../submission/tar-reader.ts';

/** An archive that is not one of a sample. */
export class SampleArchiveError extends Error {
  override readonly name = 'SampleArchiveError';
}

/**
 * Unpacks an archive into a folder that is new and nobody else's. An entry must lie in a folder that came before it and
 * that no entry may replace, so nothing is ever written through a link, whatever the archive says.
 */
export async function unpackSample(
  archive: AsyncIterable<Uint8Array>,
  folder: string,
  limits: FolderLimits,
): Promise<void> {
  const folders = new Set(['.']);
  const left = { bytes: limits.bytes, files: limits.files };
  for await (const entry of readTar(asBuffers(archive))) {
    const path = pathOf(entry.header);
    left.files -= 1;
    left.bytes -= entry.header.size;
    if (left.files < 0 || left.bytes < 0)
      throw refusal(path, `more than ${limits.files} entries or ${limits.bytes} bytes`);
    if (!folders.has(posix.dirname(path))) throw refusal(path, 'its folder did not come before it');
    await place(entry, path, join(folder, path)).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EEXIST' ? refusal(path, 'it comes twice') : error;
    });
    if (entry.header.type === typeFlags.directory) folders.add(path);
  }
}

async function place({ header, body }: TarEntry, path: string, full: string): Promise<void> {
  switch (header.type) {
    case typeFlags.directory:
      return void (await mkdir(full, { mode: 0o755 }));
    case typeFlags.symlink:
      return symlink(Buffer.from(header.linkName, 'latin1'), full);
    case typeFlags.file:
      return writeFile(body, full, (header.mode & 0o100) === 0 ? 0o644 : 0o755);
    default:
      throw refusal(path, 'it is neither a file nor a folder nor a link');
  }
}

async function writeFile(body: TarEntry['body'], full: string, mode: number): Promise<void> {
  const file = openSync(full, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, mode);
  try {
    // A piece is valid during the call only, and small.
    await body((piece) => {
      for (let at = 0; at < piece.length; ) at += writeSync(file, piece, at);
    });
  } finally {
    closeSync(file);
  }
}

function pathOf({ name }: TarHeader): string {
  const path = Buffer.from(name, 'latin1').toString().replace(/\/$/, '');
  if (path === '.' || !isRelativePath(path)) throw refusal(path, 'it leads out of the folder, or is no plain path');
  return path;
}

function refusal(path: string, why: string): SampleArchiveError {
  return new SampleArchiveError(`the archive of a sample has ${JSON.stringify(path.slice(0, 200))}: ${why}`);
}

async function* asBuffers(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const { buffer, byteOffset, byteLength } of pieces) yield Buffer.from(buffer, byteOffset, byteLength);
}
