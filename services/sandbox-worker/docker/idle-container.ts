import { randomBytes } from 'node:crypto';
import type Docker from 'dockerode';
import type { Logger } from '../../shared/log.ts';
import { isAbsent, saidBy } from './engine-failure.ts';
import { createAcrossRestarts } from './engine-return.ts';

const namePrefix = 'assay-image-';
const staleMs = 10 * 60_000;

/** An engine, and the installation whose containers on it are meant. */
export interface InstallationEngine {
  readonly docker: Docker;
  /** Empty: of nobody in particular. */
  readonly installation: string;
}

type Config = Pick<Docker.ContainerCreateOptions, 'Env' | 'WorkingDir' | 'Labels'>;

/**
 * A container that is never started: a way to read and change the files of an image. Its name tells whose it is: a label
 * would be in every image that is made of it.
 */
export async function withIdleContainer<T>(
  { docker, installation }: InstallationEngine,
  imageId: string,
  config: Config,
  use: (container: Docker.Container) => Promise<T>,
): Promise<T> {
  const name = `${namePrefix}${installation}-${randomBytes(8).toString('hex')}`;
  const acrossRestarts = createAcrossRestarts(() => docker.ping());
  try {
    const container = await docker.createContainer({
      ...config,
      name,
      Image: imageId,
      // The engine wants a command, though this one never runs.
      Cmd: ['/bin/sh'],
      HostConfig: { NetworkMode: 'none' },
    });
    return await use(container);
  } finally {
    // By its name: an engine that went away may have made it and not said so.
    await acrossRestarts(() => docker.getContainer(name).remove({ force: true, v: true })).catch((error) => {
      if (!isAbsent(error)) throw error;
    });
  }
}

/**
 * Removes those that a worker which died left behind. Of this installation that is every one, since its worker uses none
 * before it has started; of another it is every one that is too old to be in use.
 */
export async function removeStaleIdleContainers(
  { docker, installation }: InstallationEngine,
  log: Logger,
): Promise<void> {
  const own = new RegExp(`^/${namePrefix}${installation}-[0-9a-f]{16}$`);
  const found = await docker.listContainers({ all: true, filters: { name: [namePrefix], status: ['created'] } });
  const stale = found.filter(
    ({ Names, Created }) =>
      Names.every((name) => name.startsWith(`/${namePrefix}`)) &&
      ((installation !== '' && Names.every((name) => own.test(name))) || Date.now() - Created * 1000 > staleMs),
  );
  for (const { Id } of stale) {
    try {
      await docker.getContainer(Id).remove({ force: true, v: true });
    } catch (error) {
      if (!isAbsent(error)) log.warn({ container: Id, reason: saidBy(error) }, 'a stale container stays');
    }
  }
}
