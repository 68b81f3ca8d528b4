import type Docker from 'dockerode';
import { extract, type Header, pack } from 'tar-stream';
import { isAbsent } from './engine-failure.ts';

export interface ArchivedFile {
  readonly header: Header;
  readonly content: string;
}

/**
 * Reads one small regular file of a container that need not run; undefined if there is none. The answer is made from an
 * untrusted image: a link, a device, a directory or a large file is refused.
 */
export async function readRegularFile(
  container: Docker.Container,
  path: string,
  limit: number,
): Promise<ArchivedFile | undefined> {
  return firstEntry(container, path, async (header, body) => {
    if (header.type !== 'file') throw new Error(`${path} of the image is a ${header.type}; expected a regular file`);
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of body) {
      size += (chunk as Buffer).length;
      if (size > limit) throw new Error(`${path} of the image has more than ${limit} bytes`);
      chunks.push(chunk as Buffer);
    }
    return { header, content: Buffer.concat(chunks).toString('utf8') };
  });
}

/** What is at the path itself, undefined if nothing is. */
export function readHeader(container: Docker.Container, path: string): Promise<Header | undefined> {
  return firstEntry(container, path, async (header) => header);
}

async function firstEntry<T>(
  container: Docker.Container,
  path: string,
  take: (header: Header, body: AsyncIterable<unknown>) => Promise<T>,
): Promise<T | undefined> {
  let archive: NodeJS.ReadableStream;
  try {
    archive = await container.getArchive({ path });
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
  const entries = extract();
  archive.on('error', (error: Error) => entries.destroy(error));
  archive.pipe(entries as unknown as NodeJS.WritableStream);
  try {
    for await (const entry of entries) return await take(permissionsOnly(entry.header), entry);
    return undefined;
  } finally {
    (archive as unknown as { destroy(): void }).destroy();
    entries.destroy();
  }
}

/** The engine puts the file type into the mode as well. */
function permissionsOnly(header: Header): Header {
  return { ...header, mode: (header.mode ?? 0) & 0o7777 };
}

export interface NewEntry {
  /** Relative to the root of the container. */
  readonly name: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** A directory if absent. */
  readonly content?: string;
}

/** Writes entries into a container that need not run. */
export async function writeEntries(container: Docker.Container, entries: readonly NewEntry[]): Promise<void> {
  const archive = pack();
  for (const { content, ...header } of entries) {
    if (content === undefined) archive.entry({ ...header, type: 'directory' });
    else archive.entry({ ...header, type: 'file' }, content);
  }
  archive.finalize();
  await container.putArchive(archive as unknown as NodeJS.ReadableStream, { path: '/' });
}
