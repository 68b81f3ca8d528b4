import { createReadStream } from 'node:fs';
import { readTar } from '../../../services/sandbox-worker/submission/tar-reader.ts';

/** What a stored submission holds: its paths with their content, and its deletions. */
export async function listArchive(file: string): Promise<{ files: Map<string, Buffer>; deletions: string[] }> {
  const files = new Map<string, Buffer>();
  for await (const { header, body } of readTar(createReadStream(file) as AsyncIterable<Buffer>)) {
    const pieces: Buffer[] = [];
    await body((piece) => pieces.push(Buffer.from(piece)));
    files.set(header.name, header.linkName === '' ? Buffer.concat(pieces) : Buffer.from(`-> ${header.linkName}`));
  }
  const deletions = (files.get('deletions') ?? Buffer.alloc(0)).toString('latin1').split('\0').slice(0, -1);
  const changed = [...files].filter(([name]) => name.startsWith('files/'));
  return { files: new Map(changed.map(([name, content]) => [name.slice('files/'.length), content])), deletions };
}
