import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { runProgram } from './program.ts';

const smallest = 16 * 1024 * 1024;
const block = 4096;

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
      const source = await template(Math.floor(bytes / block) * block);
      await runProgram('cp', ['--sparse=always', '--', source, file]);
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
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
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
