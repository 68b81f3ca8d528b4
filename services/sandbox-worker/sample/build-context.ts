import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Pack, pack } from 'tar-stream';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';

/** Something in the context of a build. */
export type ContextPart =
  | { readonly name: string; readonly text: string }
  | { readonly name: string; readonly file: string; readonly executable: boolean }
  | { readonly name: string; readonly link: string }
  | { readonly name: string; readonly directory: true };

/** What lies at or below a path of the sample, named from that path's `from` on, below `to`. */
export function sampleParts(folder: SampleFolder, path: string, from: string, to: string): ContextPart[] {
  return entriesBelow(folder.entries, path).flatMap((entry): ContextPart[] => {
    const name = posix.join(to, posix.relative(from, entry.path));
    if (name === '.' || name === '') return [];
    if (entry.kind === 'link') return [{ name, link: entry.target }];
    if (entry.kind === 'directory') return [{ name, directory: true }];
    return [{ name, file: join(folder.folder, entry.path), executable: entry.executable }];
  });
}

/** The parts as a tar stream; a file that cannot be read breaks it. */
export function buildContext(parts: readonly ContextPart[]): Readable {
  const tar = pack();
  fill(tar, parts).catch((error: Error) => tar.destroy(error));
  return tar as unknown as Readable;
}

async function fill(tar: Pack, parts: readonly ContextPart[]): Promise<void> {
  const common = { uid: 0, gid: 0, mtime: new Date(0) };
  for (const part of parts) {
    const { name } = part;
    if ('text' in part) tar.entry({ ...common, name, mode: 0o644 }, part.text);
    else if ('directory' in part) tar.entry({ ...common, name, type: 'directory', mode: 0o755 });
    else if ('link' in part) tar.entry({ ...common, name, type: 'symlink', linkname: part.link });
    else {
      const { size } = await stat(part.file);
      const sink = tar.entry({ ...common, name, size, mode: part.executable ? 0o755 : 0o644 });
      await pipeline(createReadStream(part.file), sink as unknown as NodeJS.WritableStream);
    }
  }
  tar.finalize();
}
