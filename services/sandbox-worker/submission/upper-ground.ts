import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, linkSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Ground } from './tree-writer.ts';

/** ext4 allows 65,000 names for one file. */
const linksPerWhiteout = 30_000;

/** The overlay upper directory of a container that never ran and is not mounted: the image is not to be seen from here. */
export function createUpperGround(upper: string): Ground {
  const whiteouts = createWhiteouts(join(dirname(upper), 'assay-whiteout'));
  /** The engine makes the working directory when it creates the container, so one may be there. */
  const directory = (path: Buffer): boolean => {
    try {
      mkdirSync(path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      return lstatSync(path).isDirectory();
    }
  };
  return {
    directory,
    enter(path, { mode, uid, gid }) {
      if (!directory(path)) return false;
      chownSync(path, uid, gid);
      chmodSync(path, mode & 0o7777);
      return true;
    },
    // What the image has is covered by what is put here.
    clear() {},
    hide: whiteouts.place,
    close: whiteouts.close,
  };
}

/** Hides what the image has, as overlayfs itself does. Node cannot make a device, but it can give one more names. */
function createWhiteouts(template: string) {
  let left = 0;
  const renew = (): void => {
    rmSync(template, { force: true });
    const { status, stderr, error } = spawnSync('mknod', ['--', template, 'c', '0', '0'], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`mknod failed: ${error?.message ?? stderr.trim()}`);
    left = linksPerWhiteout;
  };
  return {
    place(path: Buffer): void {
      if (left === 0) renew();
      linkSync(template, path);
      left -= 1;
    },
    close: () => rmSync(template, { force: true }),
  };
}
