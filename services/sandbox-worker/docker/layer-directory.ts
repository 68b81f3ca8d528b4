import { realpathSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type Docker from 'dockerode';

/** The overlay2 directories of an image's layers; none where the engine has none on this host. */
export function imageLayers({ GraphDriver }: Docker.ImageInspectInfo): string[] {
  const { UpperDir = '', LowerDir = '' } = (GraphDriver?.Data ?? {}) as { UpperDir?: string; LowerDir?: string };
  if (GraphDriver?.Name !== 'overlay2') return [];
  return [UpperDir, ...LowerDir.split(':')].filter((path) => basename(path) === 'diff').map((path) => dirname(path));
}

/** The overlay2 directory of the container's own layer, undefined where the engine has none on this host. */
export function layerDirectory(info: Docker.ContainerInspectInfo): string | undefined {
  const upper = (info.GraphDriver?.Data as { UpperDir?: unknown } | null | undefined)?.UpperDir;
  if (info.GraphDriver?.Name !== 'overlay2' || typeof upper !== 'string' || basename(upper) !== 'diff')
    return undefined;
  const layer = dirname(upper);
  try {
    // The mount table knows the real path only.
    return realpathSync(layer);
  } catch {
    return layer;
  }
}
