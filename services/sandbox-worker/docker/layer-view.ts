import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describeEnd, runProgram, startProgram } from '../program/program.ts';
import type { HostIds } from './host-ids.ts';
import { lacksSpace } from './loop-disk.ts';

/** The layer of a container and those of its image, shown with the container's own host ids until it is closed. */
export interface LayerView {
  /** Puts the layer back as the engine made it; an overlay that was mounted meanwhile stays. */
  close(): Promise<void>;
}

/**
 * `idmount` (guest/idmount.c) does it, and undoes it also when this process dies. With `copies` the files of the image are those of
 * the copies of its layers in that directory.
 */
export async function showLayer(
  idmountPath: string,
  ids: HostIds,
  layer: string,
  copies?: string | undefined,
): Promise<LayerView> {
  const ready = Promise.withResolvers<boolean>();
  const onStdout = () => ready.resolve(true);
  const args = [String(ids.agent), layer, ...(copies === undefined ? [] : [copies])];
  const program = startProgram(idmountPath, args, { env: {}, onStdout });
  // Read by close, which may come later than a failure.
  const ended = program.ended.then(
    (end) => {
      if (end.code === 0 && end.stderr === '') return undefined;
      return new Error(`idmount ${describeEnd(end)}: ${end.stderr.trim()}`);
    },
    (error: Error) => error,
  );
  const close = async (): Promise<void> => {
    program.endInput();
    const error = await ended;
    if (error !== undefined) throw error;
  };
  if (!(await Promise.race([ready.promise, ended.then(() => false)]))) await close();
  return { close };
}

/** Removes the links that an idmount which was killed left beside the engine's own; the rest goes with the layer. */
export function removeLayerLinks(layer: string): void {
  const links = join(dirname(layer), 'l', basename(layer).slice(0, 16));
  try {
    for (let view = 0; ; view += 1) unlinkSync(`${links}-${view}`);
  } catch {
    // There are no more.
  }
}

const probePrefix = 'assay-probe-ids-';

/**
 * Makes an overlay of directories that are shown with other ids, in a directory of the engine's file system; false where the
 * kernel cannot, which depends on the file system. On a full disk nothing can be tried: there it
 * is assumed, or sessions would share one user until the next start.
 */
export async function canShowLayers(idmountPath: string, directory: string): Promise<boolean> {
  const probe = join(directory, `${probePrefix}${process.pid}`);
  const layer = join(probe, 'layer');
  await removeStaleProbes(directory);
  try {
    for (const name of ['l', 'image/diff', 'layer/diff', 'layer/work', 'layer/merged']) {
      mkdirSync(join(probe, name), { recursive: true, mode: 0o700 });
    }
    writeFileSync(join(layer, 'lower'), 'image/diff');
    const view = await showLayer(idmountPath, { agent: 1_900_000_000, grader: 1_900_000_001 }, layer);
    try {
      const options = `lowerdir=${join(probe, readFileSync(join(layer, 'lower'), 'utf8'))},upperdir=${layer}/diff,workdir=${layer}/work`;
      await runProgram('mount', ['-t', 'overlay', 'overlay', '-o', options, '--', join(layer, 'merged')]);
    } finally {
      await view.close();
    }
    await runProgram('umount', ['--', join(layer, 'merged')]);
    return true;
  } catch (error) {
    return lacksSpace(error);
  } finally {
    rmSync(probe, { recursive: true, force: true });
  }
}

/** Removes what a worker that was killed while it tried has left. */
async function removeStaleProbes(directory: string): Promise<void> {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory).filter((found) => found.startsWith(probePrefix))) {
    if (existsSync(join('/proc', name.slice(probePrefix.length)))) continue;
    const probe = join(directory, name);
    await runProgram('umount', ['--', join(probe, 'layer', 'merged')]).catch(() => {
      // It was not mounted yet.
    });
    rmSync(probe, { recursive: true, force: true });
  }
}
