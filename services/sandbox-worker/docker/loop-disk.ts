import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, statfsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runProgram } from '../program/program.ts';
import type { DiskLimit, HeldDisk } from './disk-limit.ts';
import type { ContainerSpec } from './engine.ts';
import type { FileSystemTemplates } from './file-system-template.ts';
import { findMount } from './mount-table.ts';

// noinit_itable: without it the kernel would write zeros over every inode table in the background.
// barrier=0: a sandbox does not survive a power cut, so its fsync need not reach the platter.
const mountOptions = 'loop,noatime,nodev,nosuid,discard,noinit_itable,barrier=0';

const freeIntervalMs = 50;

/**
 * The shell stands in the layer directory while the mount covers it, so `.` is still what the engine made there.
 * $1 image file, $2 layer directory.
 */
const coverScript = `set -e
cd -- "$2"
mount -t ext4 -o ${mountOptions} -- "$1" "$2"
cp -a . "$2"`;

/** A file system of its own, in a sparse file, mounted over the overlay2 layer of the container. */
export function createLoopDiskLimit(templates: FileSystemTemplates): DiskLimit {
  return {
    kind: 'loop',
    storageOpt: () => undefined,
    async prepare(spec) {
      const file = imageFile(spec);
      mkdirSync(spec.diskDirectory, { recursive: true, mode: 0o700 });
      await templates.copyTo(file, spec.limits.diskBytes);
      return {
        async attach(layerDirectory) {
          await runProgram('sh', ['-c', coverScript, 'sh', file, layerDirectory]);
          // The loop device holds the file from here on: its blocks are freed with the mount, even if this worker dies.
          rmSync(file, { force: true });
        },
        verify: (pid) => verifyLimit(pid, spec.limits.diskBytes),
        discard: () => rmSync(file, { force: true }),
      };
    },
    held: heldLoop,
  };
}

/**
 * Mounts and unmounts a small one in `directory`; false where this process may not. On a full disk nothing can be tried: there
 * it is assumed, and each container's limit is verified anyway.
 */
export async function canMountLoop(templates: FileSystemTemplates, directory: string): Promise<boolean> {
  if (process.geteuid?.() !== 0) return false;
  const file = join(directory, `probe-${process.pid}.ext4`);
  const target = join(directory, `probe-${process.pid}`);
  try {
    mkdirSync(target, { recursive: true, mode: 0o700 });
    await templates.copyTo(file, 16 * 1024 * 1024);
    await runProgram('mount', ['-t', 'ext4', '-o', mountOptions, '--', file, target]);
    await runProgram('umount', ['--', target]);
    return true;
  } catch (error) {
    return lacksSpace(error);
  } finally {
    rmSync(file, { force: true });
    if (existsSync(target)) rmdirSync(target);
  }
}

export function lacksSpace(error: unknown): boolean {
  return /ENOSPC|no space left on device/i.test((error as Error).message);
}

function imageFile(spec: ContainerSpec): string {
  return join(spec.diskDirectory, `${spec.name}.ext4`);
}

/** An overlay's size is that of its upper layer: seen through the container's root, the limit is proved, not assumed. */
function verifyLimit(pid: number, diskBytes: number): void {
  const { blocks, bsize } = statfsSync(`/proc/${pid}/root`);
  if (blocks * bsize > diskBytes) {
    throw new Error(
      `the container's root is ${blocks * bsize} bytes large; expected at most ${diskBytes}: the engine does not see ` +
        'the mounts of this process; run both in the same mount namespace',
    );
  }
}

/** The engine unmounts a layer that it removes; this waits for it, and does it where the engine did not. */
function heldLoop(layerDirectory: string): HeldDisk {
  const device = findMount(layerDirectory)?.source;
  const file = device === undefined ? undefined : backingFile(device);
  const deviceHeld = (): boolean => device !== undefined && file !== undefined && backingFile(device) === file;
  return {
    async free(withinMs) {
      let failure = 'a process holds it';
      for (const end = performance.now() + withinMs; performance.now() < end; await delay(freeIntervalMs)) {
        const mounted = findMount(layerDirectory) !== undefined;
        if (!mounted && !deviceHeld()) return;
        if (mounted) {
          await runProgram('umount', ['--', layerDirectory]).catch((error: Error) => {
            failure = error.message;
          });
        }
      }
      throw new Error(`the disk of a removed container stays at ${device}: ${failure}; type: umount ${layerDirectory}`);
    },
  };
}

/** The file behind /dev/loopN, undefined where it is free. */
export function backingFile(device: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${basename(device)}/loop/backing_file`, 'utf8').trim();
  } catch {
    return undefined;
  }
}
