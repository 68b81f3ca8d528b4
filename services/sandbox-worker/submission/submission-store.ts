import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';

/** Keeps sealed submissions by their digest. */
export interface SubmissionStore {
  /** Takes over a file of this host, which is gone afterwards; one that is there already stays. The signal ends it. */
  put(digest: string, file: string, signal?: AbortSignal): Promise<void>;
  /** A copy on this host for reading; undefined if there is none. Whoever reads it checks the digest. */
  fetch(digest: string): Promise<LocalSubmission | undefined>;
  remove(digest: string): Promise<void>;
}

export interface LocalSubmission {
  readonly file: string;
  /** To be called when nobody reads it any more. */
  release(): Promise<void>;
}

/** On the disk of this worker. `put` moves, so the file must lie in the same file system. */
export function createLocalSubmissionStore(directory: string): SubmissionStore {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const fileOf = (digest: string): string => {
    const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
    if (hex === undefined) throw new DomainError('INTERNAL', `"${digest}" is no digest; expected sha256:<hex>`);
    return join(directory, `${hex}.tar`);
  };
  return {
    async put(digest, file) {
      renameSync(file, fileOf(digest));
    },
    async fetch(digest) {
      const file = fileOf(digest);
      return existsSync(file) ? { file, release: async () => {} } : undefined;
    },
    async remove(digest) {
      rmSync(fileOf(digest), { force: true });
    },
  };
}
