import type Docker from 'dockerode';
import { type NewEntry, readHeader, readRegularFile, writeEntries } from './container-archive.ts';
import { sessionUser } from './container-users.ts';
import { isAbsent } from './engine-failure.ts';
import { type InstallationEngine, withIdleContainer } from './idle-container.ts';
import { withSessionUser } from './user-database.ts';

export const readyLabel = 'dev.assay.ready';
const sourceLabel = 'dev.assay.derived-from';
const repository = 'assay/derived';
const databaseLimit = 1024 * 1024;
const answerLimit = 1024 * 1024;

export const workspace = '/workspace';

/**
 * Adds the session's user, a home and a workspace to an image, once: a thin layer, made without running anything in it.
 * Returns the id of the derived image.
 */
export async function deriveImage(host: InstallationEngine, source: Docker.ImageInspectInfo): Promise<string> {
  const { docker } = host;
  const tag = source.Id.replace(/^sha256:/, '').slice(0, 16);
  const known = await findDerived(docker, tag, source.Id);
  if (known !== undefined) return known;
  const imageId = await commitDerived(host, source);
  // Another worker on this engine may have been quicker; then its image is the one to use.
  const rival = await findDerived(docker, tag, source.Id);
  if (rival !== undefined && rival !== imageId) {
    await docker.getImage(imageId).remove();
    return rival;
  }
  await docker.getImage(imageId).tag({ repo: repository, tag });
  return imageId;
}

async function findDerived(docker: Docker, tag: string, sourceId: string): Promise<string | undefined> {
  try {
    const found = await docker.getImage(`${repository}:${tag}`).inspect();
    return found.Config.Labels?.[sourceLabel] === sourceId ? found.Id : undefined;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

async function commitDerived(host: InstallationEngine, source: Docker.ImageInspectInfo): Promise<string> {
  const declaresVolumes = Object.keys(source.Config.Volumes ?? {}).length > 0;
  const parent = declaresVolumes ? await flatten(host, source.Id) : source.Id;
  const config = {
    Env: source.Config.Env ?? [],
    WorkingDir: source.Config.WorkingDir ?? '',
    Labels: { ...source.Config.Labels, [readyLabel]: '1', [sourceLabel]: source.Id },
  };
  return withIdleContainer(host, parent, config, async (container) => {
    await addSessionUser(container);
    const { Id } = (await container.commit({ pause: false, comment: 'assay: user and workspace' })) as { Id: string };
    return Id;
  });
}

/**
 * The same files without the image's settings. A declared volume cannot be taken back in a layer above, and would be a
 * directory on the host outside the disk limit.
 */
function flatten(host: InstallationEngine, imageId: string): Promise<string> {
  return withIdleContainer(host, imageId, {}, async (container) => {
    const files = await container.export();
    const answer = await host.docker.importImage(files, { message: 'assay: without volumes' });
    let text = '';
    for await (const chunk of answer) {
      text += String(chunk);
      if (text.length > answerLimit)
        throw new Error(`the engine answered an import with more than ${answerLimit} characters`);
    }
    const id = /sha256:[0-9a-f]{64}/.exec(text)?.[0];
    if (id === undefined) throw new Error(`the engine did not import the image: ${text.trim()}`);
    return id;
  });
}

async function addSessionUser(container: Docker.Container): Promise<void> {
  const passwd = await readRegularFile(container, '/etc/passwd', databaseLimit);
  const group = await readRegularFile(container, '/etc/group', databaseLimit);
  const users = withSessionUser(passwd?.content ?? '', group?.content ?? '');
  const entries: NewEntry[] = [];
  if (users.changed) {
    entries.push(...(await missingParents(container, '/etc/passwd')));
    entries.push({ name: 'etc/passwd', mode: passwd?.header.mode ?? 0o644, uid: 0, gid: 0, content: users.passwd });
    entries.push({ name: 'etc/group', mode: group?.header.mode ?? 0o644, uid: 0, gid: 0, content: users.group });
  }
  for (const path of [users.home, workspace]) {
    const header = await readHeader(container, path);
    if (header?.type === 'directory' && header.uid === sessionUser.uid) continue;
    entries.push(...(await missingParents(container, path)));
    entries.push({ name: relative(path), mode: 0o755, uid: sessionUser.uid, gid: sessionUser.gid });
  }
  if (entries.length > 0) await writeEntries(container, entries);
}

/** Directories above the path that the image lacks, so that they get root's ownership and no wide mode. */
async function missingParents(container: Docker.Container, path: string): Promise<NewEntry[]> {
  const missing: NewEntry[] = [];
  const parts = relative(path).split('/');
  for (let depth = 1; depth < parts.length; depth += 1) {
    const parent = parts.slice(0, depth).join('/');
    if ((await readHeader(container, `/${parent}`)) === undefined) {
      missing.push({ name: parent, mode: 0o755, uid: 0, gid: 0 });
    }
  }
  return missing;
}

function relative(path: string): string {
  return path.replace(/^\/+|\/+$/g, '');
}
