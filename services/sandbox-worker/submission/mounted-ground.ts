import { lstatSync, mkdirSync, readdirSync, rmdirSync, type Stats, unlinkSync } from 'node:fs';
import type { Ground } from './tree-writer.ts';

/** The root of a container that runs, whose first process has started no other: the image's files are there. */
export function createMountedGround(): Ground {
  return {
    enter: (path) => look(path)?.isDirectory() === true,
    directory(path) {
      const found = look(path);
      if (found?.isDirectory()) return true;
      if (found !== undefined) unlinkSync(path);
      mkdirSync(path);
      return true;
    },
    clear: removeTree,
    hide: removeTree,
    close() {},
  };
}

function look(path: Buffer): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

/** Node's own removal is not made for names that are no UTF-8. */
function removeTree(path: Buffer): void {
  const found = look(path);
  if (found === undefined) return;
  if (!found.isDirectory()) {
    unlinkSync(path);
    return;
  }
  for (const name of readdirSync(path, { encoding: 'buffer' })) {
    removeTree(Buffer.concat([path, Buffer.from('/'), name]));
  }
  rmdirSync(path);
}
