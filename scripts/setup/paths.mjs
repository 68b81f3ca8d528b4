import { chmodSync, mkdirSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** Everything that Assay keeps on this machine, engine and system packages aside. */
export function dataDirectory() {
  return resolve(process.env.ASSAY_DATA_DIR || join(repository, '.assay'));
}

/** Makes a directory that only its owner may enter, also when it was there with a wider mode. */
export function makePrivateDirectory(path) {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  chmodSync(path, 0o700);
  return path;
}

/** PATH with the directories of system programs, which a plain user's PATH leaves out on Debian. */
export function programPath() {
  const known = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return [...new Set([...known, '/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/bin', '/bin'])].join(delimiter);
}
