import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import { runProgram } from '../program/program.ts';
import { type CopyProblem, copyLayer } from './layer-copy.ts';
import { createSemaphore } from './semaphore.ts';

const bootIdPath = '/proc/sys/kernel/random/boot_id';
/** No floor is above this share of a file system (host/disk-pressure.ts). */
const largestFloor = 1 / 20;
/** A copy of a layer that takes longer than this is given up. */
const longestCopyMs = 600_000;
/** Inside a copy: the layer that it was made of. */
const sourceName = 'source';

/**
 * Copies of image layers, for containers that must leave no trace in the layers themselves: a copy has inodes of its own, and thus
 * a page cache of its own. A copy is never changed.
 */
export interface LayerCopies {
  /** The directory that has a copy of each of these layers, `<name of the layer>/diff`. Those that are missing are made now. */
  ensure(layers: readonly string[]): Promise<string>;
  /** Removes copies of layers that the engine has no more, and what a process that died left half made. */
  sweep(): Promise<void>;
}

export interface LayerCopiesDeps {
  /** On a file system that can be shown with other ids. */
  readonly directory: string;
  /** No copy is made that would leave less free on the disk. */
  readonly floorBytes: number;
}

export function createLayerCopies({ directory, floorBytes }: LayerCopiesDeps): LayerCopies {
  // Nobody waits until a copy is on the disk, so after a restart of the host those from before are not trusted.
  const boot = readFileSync(bootIdPath, 'utf8').trim();
  const current = join(directory, boot);
  const making = new Map<string, Promise<void>>();
  const inTurn = createSemaphore(1);

  const make = async (layer: string): Promise<void> => {
    const from = join(layer, 'diff');
    await checkRoom(from, current, floorBytes);
    const unfinished = join(current, temporaryName());
    try {
      mkdirSync(join(unfinished, 'diff'), { recursive: true, mode: 0o700 });
      writeFileSync(join(unfinished, sourceName), layer);
      await copyLayer(from, join(unfinished, 'diff'), { longestMs: longestCopyMs, refused: refusedFor(from) });
      await rename(unfinished, join(current, basename(layer))).catch((error: NodeJS.ErrnoException) => {
        // Another worker with the same directory was quicker.
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
      });
    } finally {
      await rm(unfinished, { recursive: true, force: true });
    }
  };
  const ensureOne = (layer: string): Promise<void> => {
    const name = basename(layer);
    if (existsSync(join(current, name))) return Promise.resolve();
    const running = making.get(name) ?? inTurn(() => make(layer)).finally(() => making.delete(name));
    making.set(name, running);
    return running;
  };
  /** Under another name first: what is half removed must not look like a copy. */
  const remove = async (name: string): Promise<void> => {
    const doomed = join(current, temporaryName());
    await rename(join(current, name), doomed);
    await rm(doomed, { recursive: true, force: true });
  };
  return {
    async ensure(layers) {
      mkdirSync(current, { recursive: true, mode: 0o700 });
      for (const layer of layers) await ensureOne(layer);
      return current;
    },
    async sweep() {
      for (const name of namesIn(directory)) {
        if (name !== boot) await rm(join(directory, name), { recursive: true, force: true });
      }
      for (const name of namesIn(current)) {
        const maker = makerOf(name);
        if (maker !== undefined) {
          if (!isAlive(maker)) await rm(join(current, name), { recursive: true, force: true });
        } else if (!existsSync(readFileSync(join(current, name, sourceName), 'utf8'))) await remove(name);
      }
    },
  };
}

/** Tells which process makes or removes what has this name. */
function temporaryName(): string {
  return `tmp-${process.pid}-${randomBytes(6).toString('hex')}`;
}

function makerOf(name: string): number | undefined {
  const pid = /^tmp-(\d+)-/.exec(name)?.[1];
  return pid === undefined ? undefined : Number(pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

async function checkRoom(from: string, to: string, floorBytes: number): Promise<void> {
  const needed = Number.parseInt(await runProgram('du', ['--summarize', '--block-size=1', '--', from]), 10);
  const { blocks, bavail, bsize } = statfsSync(to);
  if (bavail * bsize - needed < Math.min(floorBytes, blocks * bsize * largestFloor)) throw noRoom(from);
}

function refusedFor(from: string): (problem: CopyProblem) => Error {
  return (problem) =>
    problem === 'NO_SPACE'
      ? noRoom(from)
      : new Error(`${from}, which gradings read a copy of, cannot be copied: ${problem}`);
}

function noRoom(from: string): DomainError {
  const message = `the disk of the worker's host has no room for a copy of ${from}, which gradings read instead of it`;
  return new DomainError('HOST_FULL', message);
}
