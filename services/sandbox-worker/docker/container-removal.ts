import { setTimeout as delay } from 'node:timers/promises';
import type Docker from 'dockerode';
import { killOrphans } from './container-orphans.ts';
import type { DiskLimit, HeldDisk } from './disk-limit.ts';
import { engineFailed, isAbsent } from './engine-failure.ts';
import { layerDirectory } from './layer-directory.ts';
import { removeLayerLinks } from './layer-view.ts';

const attempts = 40;
const firstPauseMs = 25;
const longestPauseMs = 2_000;
/** The engine has usually unmounted a disk by then. */
const freeMs = 1_000;
const freeWithoutOrphansMs = 5_000;

/** Removes a container in whatever state it is, with its volumes and its disk; done only when all of it is gone. */
export async function removeContainer(docker: Docker, disk: DiskLimit, id: string): Promise<void> {
  const container = docker.getContainer(id);
  let held: HeldDisk | undefined;
  let layer: string | undefined;
  /** The id, where `id` may be a name. */
  let found: string | undefined;
  let failure: unknown;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    if (attempt > 0) await delay(Math.min(firstPauseMs * 2 ** (attempt - 1), longestPauseMs));
    try {
      const info = await container.inspect();
      found = info.Id;
      layer = layerDirectory(info) ?? layer;
      held ??= layer === undefined ? undefined : disk.held(layer);
      await container.remove({ force: true, v: true });
      // A second remove beside this one is answered at once, so only the container's absence counts.
      failure = new Error('the engine still lists it');
      await container.inspect();
    } catch (error) {
      if (isAbsent(error)) {
        // One that is absent from the beginning may be what an attempt that was cut short has left.
        await (found === undefined ? killOrphans(id) : freeDisk(held, found));
        if (layer !== undefined) removeLayerLinks(layer);
        return;
      }
      failure = error;
    }
  }
  throw engineFailed(`removing container ${id}`, failure);
}

async function freeDisk(held: HeldDisk | undefined, containerId: string): Promise<void> {
  try {
    await held?.free(freeMs);
  } catch {
    await killOrphans(containerId);
    await held?.free(freeWithoutOrphansMs);
  }
}
