import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { runProgram } from '../program/program.ts';

const smallest = 16 * 1024 * 1024;
const block = 4096;
/** Sessions may ask for any size: of more sizes than this those made first are made again when somebody asks. */
const mostKept = 16;

/** Empty file systems, made once for each size and copied from then on: a copy is a few hundred KiB in a sparse file. */
export interface FileSystemTemplates {
  /** Makes `file` a sparse image of a file system of at most `bytes`. */
  copyTo(file: string, bytes: number): Promise<void>;
}

export function createFileSystemTemplates(directory: string): FileSystemTemplates {
  const making = new Map<string, Promise<void>>();
  const template = async (bytes: number): Promise<string> => {
    const file = join(directory, `empty-${bytes}-1.ext4`);
    if (existsSync(file)) return file;
    let made = making.get(file);
    if (!made) {
      made = makeTemplate(file, bytes).finally(() => making.delete(file));
      making.set(file, made);
    }
    await made;
    return file;
  };
  return {
    async copyTo(file, bytes) {
      if (!(bytes >= smallest)) throw new Error(`a disk of ${bytes} bytes was asked for; expected ${smallest} or more`);
      const copy = async (): Promise<string> =>
        runProgram('cp', ['--sparse=always', '--', await template(Math.floor(bytes / block) * block), file]);
      // It may have been removed for a newer one in between.
      await copy().catch(copy);
    },
  };
}

async function makeTemplate(file: string, bytes: number): Promise<void> {
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(join(file, '..'), { recursive: true, mode: 0o700 });
    const handle = await open(draft, 'w', 0o600);
    await handle.truncate(bytes);
    await handle.close();
    await runProgram('mkfs.ext4', [...mkfsOptions, draft]);
    removeOldest(join(file, '..'));
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}

function removeOldest(directory: string): void {
  const made = readdirSync(directory)
    .filter((name) => /^empty-\d+-1\.ext4$/.test(name))
    .map((name) => ({ path: join(directory, name), ms: statSync(join(directory, name)).mtimeMs }))
    .sort((a, b) => b.ms - a.ms);
  for (const { path } of made.slice(mostKept - 1)) rmSync(path, { force: true });
}

const mkfsOptions = [
  '-q',
  '-F',
  '-b',
  String(block),
  // Source trees are many small files: an inode for every 8 KiB.
  '-i',
  '8192',
  // No blocks kept back for root: the limit is the limit.
  '-m',
  '0',
  // Nothing here outlives its container, so a journal would only cost; it is never grown either.
  '-O',
  '^has_journal,^resize_inode',
  '-E',
  'lazy_itable_init=1,nodiscard,root_owner=0:0',
];
