import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Everything below a directory, by path (latin1), in words; written apart from what it is used to test. */
export function listTree(root: string): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (directory: Buffer, shown: string): void => {
    for (const name of readdirSync(directory, { encoding: 'buffer' })) {
      const path = Buffer.concat([directory, Buffer.from('/'), name]);
      const said = `${shown}${name.toString('latin1')}`;
      const stats = lstatSync(path);
      const owner = `${stats.uid}:${stats.gid}`;
      const mode = (stats.mode & 0o777).toString(8);
      if (stats.isDirectory()) {
        found.set(said, `directory ${mode} ${owner}`);
        walk(path, `${said}/`);
      } else if (stats.isSymbolicLink()) found.set(said, `link ${readlinkSync(path, 'latin1')} ${owner}`);
      else if (!stats.isFile()) found.set(said, `other ${mode} ${owner}`);
      else found.set(said, `file ${mode} ${owner} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`);
    }
  };
  walk(Buffer.from(root), '');
  return found;
}
