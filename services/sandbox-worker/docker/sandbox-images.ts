import type Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { readRegularFile } from './container-archive.ts';
import { deriveImage, readyLabel, workspace } from './derived-image.ts';
import type { SandboxImage } from './engine.ts';
import { engineFailed, isAbsent, saidBy, statusOf } from './engine-failure.ts';
import { type InstallationEngine, withIdleContainer } from './idle-container.ts';
import { findHome, findNames } from './user-database.ts';

const passwdLimit = 1024 * 1024;
const remembered = 1024;

/** Turns references into images that a session can run in. Each image is prepared once, whoever asks and how often. */
export function createSandboxImages(host: InstallationEngine): (reference: string) => Promise<SandboxImage> {
  const { docker } = host;
  const prepared = new Map<string, Promise<SandboxImage>>();

  const prepareOnce = (info: Docker.ImageInspectInfo): Promise<SandboxImage> => {
    let image = prepared.get(info.Id);
    if (!image) {
      image = prepare(host, info);
      prepared.set(info.Id, image);
      image.catch(() => prepared.delete(info.Id));
      const oldest = prepared.keys().next().value;
      if (prepared.size > remembered && oldest !== undefined) prepared.delete(oldest);
    }
    return image;
  };

  return async (reference) => {
    // A tag can move and an image can go, so the engine is asked each time: it takes a millisecond.
    const info = await inspectImage(docker, reference);
    const image = await prepareOnce(info);
    if (image.id === info.Id || (await exists(docker, image.id))) return image;
    prepared.delete(info.Id);
    return prepareOnce(info);
  };
}

async function inspectImage(docker: Docker, reference: string): Promise<Docker.ImageInspectInfo> {
  // An empty or odd reference would become another path of the engine's API.
  if (!/^[\w][\w./:@+-]{0,511}$/.test(reference) || reference.split('/').includes('..')) {
    throw new DomainError(
      'INVALID_FIELD',
      `"${reference.slice(0, 100)}" is no image reference; expected name[:tag] or an id`,
      {
        field: 'image',
      },
    );
  }
  try {
    return await docker.getImage(reference).inspect();
  } catch (error) {
    if (!isAbsent(error) && statusOf(error) !== 400) throw engineFailed(`looking for image ${reference}`, error);
    const message = `image ${reference} is not on this worker; type: docker pull ${reference}`;
    throw new DomainError('IMAGE_NOT_FOUND', message, { image: reference }, { cause: error });
  }
}

async function exists(docker: Docker, id: string): Promise<boolean> {
  try {
    await docker.getImage(id).inspect();
    return true;
  } catch (error) {
    if (isAbsent(error)) return false;
    throw engineFailed(`looking for image ${id}`, error);
  }
}

async function prepare(host: InstallationEngine, info: Docker.ImageInspectInfo): Promise<SandboxImage> {
  try {
    const user = isLabelledReady(info) ? await readUser(host, info.Id) : undefined;
    if (user !== undefined) return describe(info, info.Id, user);
    const id = await deriveImage(host, info);
    const derivedUser = await readUser(host, id);
    if (derivedUser === undefined) throw new Error('the derived image has no entry for uid 1000');
    return describe(info, id, derivedUser);
  } catch (error) {
    if (error instanceof DomainError || statusOf(error) !== undefined) throw engineFailed('preparing an image', error);
    const message = `image ${info.RepoTags?.[0] ?? info.Id} cannot hold a session: ${saidBy(error)}`;
    throw new DomainError('INVALID_FIELD', message, { field: 'image' }, { cause: error });
  }
}

function isLabelledReady(info: Docker.ImageInspectInfo): boolean {
  return info.Config.Labels?.[readyLabel] === '1' && Object.keys(info.Config.Volumes ?? {}).length === 0;
}

type User = Pick<SandboxImage, 'home' | 'users'>;

function readUser(host: InstallationEngine, imageId: string): Promise<User | undefined> {
  return withIdleContainer(host, imageId, {}, async (container) => {
    const passwd = await readRegularFile(container, '/etc/passwd', passwdLimit);
    const home = passwd && findHome(passwd.content);
    return home === undefined ? undefined : { home, users: findNames(passwd?.content ?? '') };
  });
}

function describe(info: Docker.ImageInspectInfo, id: string, user: User): SandboxImage {
  const env: Record<string, string> = {};
  for (const entry of info.Config.Env ?? []) {
    const equals = entry.indexOf('=');
    if (equals > 0) env[entry.slice(0, equals)] = entry.slice(equals + 1);
  }
  const directory = info.Config.WorkingDir ?? '';
  const workingDirectory = directory.startsWith('/') && directory !== '/' ? directory : workspace;
  return { id, env, workingDirectory, ...user };
}
