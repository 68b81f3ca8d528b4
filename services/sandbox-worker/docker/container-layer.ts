import { readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { engineFailed, isAbsent } from './engine-failure.ts';
import { type HostIds, hostIdsOf } from './host-ids.ts';
import { layerDirectory } from './layer-directory.ts';
import { findMount } from './mount-table.ts';

/** The directories of this host that a running container's root is made of. */
export interface ContainerLayer {
  readonly imageId: string;
  /** What the container changed: where to look. */
  readonly upper: string;
  /** What the container sees as its root. */
  readonly merged: string;
  /** Whether a path that is not in `upper` is certainly what the image has there. */
  readonly upperIsComplete: boolean;
  /** The owners that `merged` shows; `upper` shows those that the container sees. */
  readonly ids?: HostIds | undefined;
}

/** Of a container that runs or is paused. Without root, or with another storage driver, there is none to be had. */
export async function containerLayer(docker: Docker, id: string): Promise<ContainerLayer> {
  const info = await docker
    .getContainer(id)
    .inspect()
    .catch((error: unknown) => {
      if (isAbsent(error)) throw new DomainError('SANDBOX_LOST', `container ${id} is gone`, {}, { cause: error });
      throw engineFailed(`looking at container ${id}`, error);
    });
  if (!info.State.Running) throw new DomainError('SANDBOX_LOST', `container ${id} does not run any more`);
  const layer = layerDirectory(info);
  if (layer === undefined || process.geteuid?.() !== 0)
    throw noLayer('it needs root on the host of an overlay2 engine');
  const merged = join(realpathSync(layer), 'merged');
  const mount = findMount(merged);
  // A directory that is not mounted here would look as if everything had been deleted.
  if (mount?.fileSystem !== 'overlay')
    throw noLayer("it does not see the engine's mounts; run both in one mount namespace");
  return {
    ...{ imageId: info.Image, upper: join(layer, 'diff'), merged },
    ...{ upperIsComplete: upperIsComplete(mount.options), ids: hostIdsOf(info.Config.User) },
  };
}

/** With these features of overlayfs a file can come from another place of the image than its path says. */
function upperIsComplete(options: string): boolean {
  return ['redirect_dir', 'metacopy'].every(
    (feature) => moduleSays(feature) && !options.split(',').includes(`${feature}=on`),
  );
}

function moduleSays(feature: string): boolean {
  try {
    return readFileSync(`/sys/module/overlay/parameters/${feature}`, 'utf8').trim() === 'N';
  } catch {
    return false;
  }
}

function noLayer(why: string): DomainError {
  return new DomainError('ENGINE_FAILED', `this worker cannot look at the files of a container: ${why}`);
}
