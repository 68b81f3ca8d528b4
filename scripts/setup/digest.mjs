import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The digest of the files of one directory that a pattern names, with whatever else the result depends on. */
export function digestOfFiles(directory, pattern, ...others) {
  const hash = createHash('sha256');
  for (const other of others) hash.update(`${other}\0`);
  const names = readdirSync(directory).filter((name) => pattern.test(name));
  for (const name of names.sort()) {
    const content = readFileSync(join(directory, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}
