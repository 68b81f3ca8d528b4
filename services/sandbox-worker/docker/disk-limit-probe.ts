import { existsSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { pack } from 'tar-stream';
import type { Logger } from '../../shared/log.ts';
import { createEngineDiskLimit, createNoDiskLimit, type DiskLimit } from './disk-limit.ts';
import { createFileSystemTemplates } from './file-system-template.ts';
import { canMountLoop, createLoopDiskLimit } from './loop-disk.ts';

interface EngineInfo {
  readonly Driver?: string;
  readonly DriverStatus?: readonly (readonly [string, string])[] | null;
  readonly DockerRootDir?: string;
}

/** Finds, by trying, how this engine's containers can be limited. */
export async function probeDiskLimit(docker: Docker, templateDirectory: string, log: Logger): Promise<DiskLimit> {
  const info = (await docker.info()) as EngineInfo;
  if (mayLimit(info) && (await acceptsStorageOpt(docker))) return createEngineDiskLimit();
  const templates = createFileSystemTemplates(templateDirectory);
  if (layersAreHere(info) && (await canMountLoop(templates, templateDirectory))) return createLoopDiskLimit(templates);
  log.warn({ driver: info.Driver }, 'no disk limit can be had: neither storage-opt size nor loop mounts work here');
  return createNoDiskLimit();
}

/** overlay2 limits on xfs with project quotas alone; asking costs an image, so it is asked only where it may work. */
function mayLimit(info: EngineInfo): boolean {
  if (info.Driver !== 'overlay2') return ['btrfs', 'zfs', 'devicemapper'].includes(info.Driver ?? '');
  return info.DriverStatus?.some(([name, value]) => name === 'Backing Filesystem' && value === 'xfs') ?? false;
}

/** Whether the containers' layers are overlay2 directories of this host. */
export async function hasLayersHere(docker: Docker): Promise<boolean> {
  return layersAreHere((await docker.info()) as EngineInfo);
}

function layersAreHere(info: EngineInfo): boolean {
  if (info.Driver !== 'overlay2' || !info.DockerRootDir) return false;
  return existsSync(info.DockerRootDir) && existsSync(join(realpathSync(info.DockerRootDir), 'overlay2'));
}

/** Creates, and never starts, a container with a size. */
export async function acceptsStorageOpt(docker: Docker): Promise<boolean> {
  const empty = pack();
  empty.entry({ name: 'probe', type: 'directory' });
  empty.finalize();
  const repo = 'assay/probe';
  const tag = `p${process.pid}-${Date.now()}`;
  const answer = await docker.importImage(empty as unknown as NodeJS.ReadableStream, { repo, tag });
  await new Promise<void>((resolve, reject) => answer.on('end', resolve).on('error', reject).resume());
  try {
    const StorageOpt = { size: String(64 * 1024 * 1024) };
    const container = await docker.createContainer({
      Image: `${repo}:${tag}`,
      Cmd: ['/probe'],
      HostConfig: { StorageOpt },
    });
    await container.remove({ force: true });
    return true;
  } catch {
    return false;
  } finally {
    await docker.getImage(`${repo}:${tag}`).remove();
  }
}
