import { randomBytes } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { placeProgram } from '../sandbox/placed-program.ts';

/** A grading container's directory on the host. `run` is mounted read-only in the container. */
export interface GradingSlot {
  readonly name: string;
  readonly runDirectory: string;
  readonly diskDirectory: string;
  /** For what is on its way into the container. */
  readonly stagingDirectory: string;
  /** Relative to the working directory: a socket's path may not be long. */
  readonly socketPath: string;
  remove(): void;
}

export interface GradingSlots {
  make(): GradingSlot;
}

export interface GradingSlotDeps {
  readonly dataDirectory: string;
  readonly guestPath: string;
  /** The program behind the test library. */
  readonly isolatedPath: string;
  /** The folder of the test library. */
  readonly libraryPath: string;
}

export function createGradingSlots(deps: GradingSlotDeps): GradingSlots {
  const root = join(deps.dataDirectory, 'g');
  // What a worker before this one left.
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true, mode: 0o700 });
  return {
    make() {
      const name = randomBytes(6).toString('hex');
      const directory = join(root, name);
      const runDirectory = join(directory, 'run');
      mkdirSync(join(runDirectory, 'lib'), { recursive: true });
      placeProgram(deps.guestPath, join(runDirectory, 'guest'));
      placeProgram(deps.isolatedPath, join(runDirectory, 'isolated'));
      for (const file of readdirSync(deps.libraryPath)) {
        const placed = join(runDirectory, 'lib', file);
        copyFileSync(join(deps.libraryPath, file), placed);
        // Another user reads it, whatever the checkout allows.
        chmodSync(placed, 0o644);
      }
      return {
        name,
        runDirectory,
        diskDirectory: join(directory, 'disk'),
        stagingDirectory: directory,
        socketPath: relative(process.cwd(), join(runDirectory, 'guest.sock')),
        remove: () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }),
      };
    },
  };
}
