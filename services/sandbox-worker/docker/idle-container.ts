import { randomBytes } from 'node:crypto';
import type Docker from 'dockerode';
import type { Logger } from '../../shared/log.ts';
import { isAbsent, saidBy } from './engine-failure.ts';

const namePrefix = 'assay-image-';
const staleMs = 10 * 60_000;

type Config = Pick<Docker.ContainerCreateOptions, 'Env' | 'WorkingDir' | 'Labels'>;

/** A container that is never started: a way to read and change the files of an image. */
export async function withIdleContainer<T>(
  docker: Docker,
  imageId: string,
  config: Config,
  use: (container: Docker.Container) => Promise<T>,
): Promise<T> {
  const container = await docker.createContainer({
    ...config,
    name: `${namePrefix}${randomBytes(8).toString('hex')}`,
    Image: imageId,
    // The engine wants a command, though this one never runs.
    Cmd: ['/bin/sh'],
    HostConfig: { NetworkMode: 'none' },
  });
  try {
    return await use(container);
  } finally {
    await container.remove({ force: true, v: true });
  }
}

/** Removes those that a worker which died left behind; never one that may be in use. */
export async function removeStaleIdleContainers(docker: Docker, log: Logger): Promise<void> {
  const found = await docker.listContainers({ all: true, filters: { name: [namePrefix], status: ['created'] } });
  const stale = found.filter(
    ({ Names, Created }) =>
      Names.every((name) => name.startsWith(`/${namePrefix}`)) && Date.now() - Created * 1000 > staleMs,
  );
  for (const { Id } of stale) {
    try {
      await docker.getContainer(Id).remove({ force: true, v: true });
    } catch (error) {
      if (!isAbsent(error)) log.warn({ container: Id, reason: saidBy(error) }, 'a stale container stays');
    }
  }
}
