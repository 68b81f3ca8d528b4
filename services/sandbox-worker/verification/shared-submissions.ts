import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { SubmissionObjects } from '../../shared/store/submission-objects.ts';
import type { SubmissionStore } from '../submission/submission-store.ts';

export interface SharedSubmissionsDeps {
  readonly objects: SubmissionObjects;
  /** Of this worker alone, in the file system of the staging directory. Copies stay for the next grading. */
  readonly directory: string;
  /** Of all copies together; beyond it those go that were used longest ago. */
  readonly maxBytes: number;
}

const digestShape = /^sha256:([0-9a-f]{64})$/;

/** The submissions of a project. */
export type ProjectSubmissions = (project: string) => SubmissionStore;

/** Submissions where every worker finds them, with copies on this host. */
export function createSharedSubmissions({ objects, directory, maxBytes }: SharedSubmissionsDeps): ProjectSubmissions {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // Of a life that ended in the middle of a download.
  for (const name of readdirSync(directory)) if (name.endsWith('.part')) rmSync(join(directory, name));
  const inUse = new Map<string, number>();
  const fetching = new Map<string, Promise<boolean>>();

  const fileOf = (digest: string): string => {
    const hex = digestShape.exec(digest)?.[1];
    if (hex === undefined) throw new DomainError('INTERNAL', `"${digest}" is no digest; expected sha256:<hex>`);
    return join(directory, `${hex}.tar`);
  };
  const makeRoom = async (): Promise<void> => {
    const files = await Promise.all(
      (await readdir(directory)).map(async (name) => {
        const { size, mtimeMs } = await stat(join(directory, name)).catch(() => ({ size: 0, mtimeMs: 0 }));
        return { file: join(directory, name), size, mtimeMs };
      }),
    );
    let held = files.reduce((sum, { size }) => sum + size, 0);
    for (const { file, size } of files.sort((a, b) => a.mtimeMs - b.mtimeMs)) {
      if (held <= maxBytes) return;
      if (inUse.has(file) || !file.endsWith('.tar')) continue;
      await rm(file, { force: true });
      held -= size;
    }
  };
  /** Whether there is one. What the store gives is believed only if its digest is right. */
  const download = async (project: string, digest: string, file: string): Promise<boolean> => {
    const pieces = await objects.get(project, digest);
    if (pieces === undefined) return false;
    const part = join(directory, `${randomBytes(8).toString('hex')}.part`);
    try {
      const found = await writePieces(part, pieces);
      if (found !== digest)
        throw new DomainError('STORE_UNAVAILABLE', `the store gave ${found} for ${digest}; try again`);
      await rename(part, file);
      await makeRoom();
      return true;
    } finally {
      await rm(part, { force: true });
    }
  };
  const present = async (project: string, digest: string, file: string): Promise<boolean> => {
    const now = new Date();
    // It counts as used from now on; whether it could be touched says whether it is there.
    const there = await utimes(file, now, now).then(
      () => true,
      () => false,
    );
    if (there) return true;
    const key = `${project}/${digest}`;
    const running = fetching.get(key) ?? download(project, digest, file).finally(() => fetching.delete(key));
    fetching.set(key, running);
    return running;
  };
  const release = (file: string): void => {
    const others = (inUse.get(file) ?? 1) - 1;
    if (others > 0) inUse.set(file, others);
    else inUse.delete(file);
  };

  return (project) => ({
    async put(digest, staged, signal) {
      if (!(await objects.has(project, digest))) {
        const { size } = await stat(staged);
        const pieces = createReadStream(staged);
        // Also where the store refused it before it was read.
        await objects.put(project, digest, pieces, size, signal).finally(() => pieces.destroy());
      }
      await rename(staged, fileOf(digest));
      await makeRoom();
    },
    async fetch(digest) {
      const file = fileOf(digest);
      inUse.set(file, (inUse.get(file) ?? 0) + 1);
      try {
        if (await present(project, digest, file)) return { file, release: async () => release(file) };
      } catch (error) {
        release(file);
        throw error;
      }
      release(file);
      return undefined;
    },
    remove: async (digest) => rm(fileOf(digest), { force: true }),
  });
}

async function writePieces(path: string, pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const piece of pieces) {
      hash.update(piece);
      await file.writeFile(piece);
    }
  } finally {
    await file.close();
  }
  return `sha256:${hash.digest('hex')}`;
}
