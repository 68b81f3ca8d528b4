import { join } from 'node:path';
import type Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { containerOptions } from './container-options.ts';
import { removeContainer } from './container-removal.ts';
import type { DiskLimit, PreparedDisk } from './disk-limit.ts';
import type { ContainerFiles, ContainerSpec, RunningContainer } from './engine.ts';
import { engineFailed, saidBy, statusOf } from './engine-failure.ts';
import { copyForFork } from './fork-copy.ts';
import { type HostIds, writeIdMaps } from './host-ids.ts';
import { layerDirectory } from './layer-directory.ts';
import { showLayer } from './layer-view.ts';
import { writeNameFiles } from './name-files.ts';

interface RunDeps {
  readonly docker: Docker;
  readonly disk: DiskLimit;
  readonly log: Logger;
  readonly command: readonly string[];
  readonly raiseLimits: boolean;
  /** Gives containers host ids of their own; undefined where that cannot be had. */
  readonly ownIds?: OwnIds | undefined;
}

export interface OwnIds {
  readonly next: () => HostIds;
  readonly idmountPath: string;
  /** Undefined: every container has the image's own files. */
  readonly copies?: ImageCopies | undefined;
}

/** Makes copies of all layers of an image, once, and tells the directory that has them. */
export type ImageCopies = (imageId: string) => Promise<string>;

/** Creates, limits and starts; whatever goes wrong, nothing of it stays. */
export async function runContainer(deps: RunDeps, spec: ContainerSpec): Promise<RunningContainer> {
  const created = await createContainer(deps, spec);
  return created.start(async (layer) => {
    await copyFiles(deps.docker, spec.files, layer);
    await spec.fill?.(upperDirectory(layer));
  });
}

/** A container that is created and limited; its files can be changed before it starts. */
export interface UnstartedContainer {
  readonly id: string;
  /** Throws where this worker cannot write there. */
  readonly upper: string;
  /** Whatever goes wrong, nothing of it stays. */
  start(fill?: (layer: string | undefined) => Promise<void>): Promise<RunningContainer>;
}

/** Creates and limits; whatever goes wrong, nothing of it stays. */
export async function createContainer(deps: RunDeps, spec: ContainerSpec): Promise<UnstartedContainer> {
  const { docker, disk } = deps;
  const storageOpt = disk.storageOpt(spec.limits.diskBytes);
  try {
    writeNameFiles(spec.slotDirectory);
  } catch (error) {
    throw engineFailed(`starting container ${spec.name}`, error);
  }
  const ids = deps.ownIds?.next();
  const options = containerOptions(spec, deps.command, { storageOpt, raiseLimits: deps.raiseLimits, ids });
  // The disk is made while the engine creates; both are waited for, so that a failure of one does not orphan the other.
  const [created, prepared] = await Promise.allSettled([docker.createContainer(options), disk.prepare(spec)]);
  const failed = async (error: unknown): Promise<never> => {
    if (prepared.status === 'fulfilled') prepared.value.discard();
    if (created.status === 'fulfilled') await removeQuietly(deps, created.value.id);
    // Without an answer the container may exist; an answer, such as "name taken", speaks of somebody else's.
    else if (statusOf(created.reason) === undefined) await removeQuietly(deps, spec.name);
    throw engineFailed(`starting container ${spec.name}`, error);
  };
  try {
    if (created.status === 'rejected') throw created.reason;
    if (prepared.status === 'rejected') throw prepared.reason;
    const container = created.value;
    const layer = await limit(container, prepared.value);
    return {
      id: container.id,
      get upper() {
        return upperDirectory(layer);
      },
      start: async (fill) => {
        try {
          await fill?.(layer);
          const copies = spec.copiedImage ? await deps.ownIds?.copies?.(spec.imageId) : undefined;
          return await withOwnIds(deps, { ids, layer, copies }, () => start(container, prepared.value));
        } catch (error) {
          return failed(error);
        }
      },
    };
  } catch (error) {
    return failed(error);
  }
}

/** Puts the disk limit over the container's layer, and tells where that is. */
async function limit(container: Docker.Container, disk: PreparedDisk): Promise<string | undefined> {
  const created = await container.inspect();
  const volume = created.Mounts.find(({ Type }) => Type === 'volume');
  if (volume) {
    const message = `the image declares a volume at ${volume.Destination}, outside the disk limit; use the image that image() gave`;
    throw new DomainError('ENGINE_FAILED', message);
  }
  const layer = layerDirectory(created);
  if (layer !== undefined) await disk.attach(layer);
  return layer;
}

interface OwnView {
  readonly ids: HostIds | undefined;
  readonly layer: string | undefined;
  readonly copies: string | undefined;
}

/** The engine mounts the root while it starts the container; the first process then waits for its ids. */
async function withOwnIds(
  { ownIds }: RunDeps,
  { ids, layer, copies }: OwnView,
  begin: () => Promise<RunningContainer>,
): Promise<RunningContainer> {
  if (ownIds === undefined || ids === undefined || layer === undefined) return begin();
  const view = await showLayer(ownIds.idmountPath, ids, layer, copies);
  let running: RunningContainer;
  try {
    running = await begin();
  } finally {
    await view.close();
  }
  await writeIdMaps(running.pid, ids);
  return running;
}

async function start(container: Docker.Container, disk: PreparedDisk): Promise<RunningContainer> {
  await container.start();
  const { State } = await container.inspect();
  if (!State.Running || !State.Pid) {
    throw new Error(`its first process ended at once with exit code ${State.ExitCode} ${State.Error}`.trim());
  }
  disk.verify(State.Pid);
  return { id: container.id, pid: State.Pid };
}

function upperDirectory(layer: string | undefined): string {
  if (layer !== undefined && process.geteuid?.() === 0) return join(layer, 'diff');
  const message = 'this worker cannot change the files of a container: it needs root on the host of an overlay2 engine';
  throw new DomainError('ENGINE_FAILED', message);
}

async function copyFiles(docker: Docker, files: ContainerFiles | undefined, layer: string | undefined): Promise<void> {
  if (files === undefined) return;
  await files.whileStill(async () => {
    const source = layerDirectory(await docker.getContainer(files.containerId).inspect());
    if (layer === undefined || source === undefined || process.geteuid?.() !== 0) {
      const message = 'this worker cannot fork sessions: it needs root on the host of an overlay2 engine';
      throw new DomainError('ENGINE_FAILED', message);
    }
    await copyForFork(join(source, 'diff'), join(layer, 'diff'), files.signal);
  });
}

async function removeQuietly({ docker, disk, log }: RunDeps, container: string): Promise<void> {
  try {
    await removeContainer(docker, disk, container);
  } catch (error) {
    log.error({ container, reason: saidBy(error) }, 'a container that failed to start could not be removed');
  }
}
