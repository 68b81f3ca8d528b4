import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Finished manifests are named by their image. */
const finished = /^[0-9a-f]{64}$/;

/** Where manifests are kept from run to run: making that of an image takes seconds of CPU. */
export function sharedManifests(dataDir: string): string {
  const directory = join(dataDir, 'manifests');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}

/**
 * Gives a worker the shared manifests, and shares what it has made when it is over. The worker has a directory of its
 * own: on its start it removes what is unfinished there, which in the shared one is being made by another.
 */
export function shareManifests(dataDir: string, workerDirectory: string): { collect(): void } {
  const shared = sharedManifests(dataDir);
  const own = join(workerDirectory, 'manifests');
  mkdirSync(own, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(shared).filter((each) => finished.test(each))) {
    symlinkSync(join(shared, name), join(own, name));
  }
  return {
    collect() {
      // The disk that it was on may be gone.
      const made = existsSync(own) ? readdirSync(own).filter((each) => finished.test(each)) : [];
      for (const name of made.filter((each) => !existsSync(join(shared, each)))) {
        const unfinished = join(shared, `${name}.${process.pid}`);
        copyFileSync(join(own, name), unfinished);
        renameSync(unfinished, join(shared, name));
      }
    },
  };
}
