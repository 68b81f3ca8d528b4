import { text } from 'node:stream/consumers';
import { type Header, pack } from 'tar-stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readHeader, readRegularFile } from '../../../services/sandbox-worker/docker/container-archive.ts';
import type { Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { withIdleContainer } from '../../../services/sandbox-worker/docker/idle-container.ts';
import { baseImage, createScratchHost, nothingLeft } from './scratch-host.ts';

const host = createScratchHost();
const made: string[] = [];
let engine: Engine;

beforeAll(async () => {
  engine = await host.engine({ command: ['/bin/sleep', 'infinity'] });
});

afterAll(async () => {
  const idle = await host.docker.listContainers({ all: true, filters: { ancestor: made } });
  for (const id of made.reverse()) {
    await host.docker
      .getImage(id)
      .remove({ force: true })
      .catch(() => {});
  }
  expect(idle).toEqual([]);
  expect(await host.close()).toEqual(nothingLeft);
});

type File = Partial<Header> & { name: string; content?: string };

/** Imports an image made of these files. */
async function importImage(name: string, files: File[], changes: string[] = []): Promise<string> {
  const archive = pack();
  for (const { content, ...header } of files) archive.entry(header as Header, content ?? '');
  archive.finalize();
  const reference = `assay-test/${name}:${host.installation}`;
  const [repo, tag] = reference.split(':');
  const answer = await host.docker.importImage(archive as unknown as NodeJS.ReadableStream, { repo, tag, changes });
  await text(answer);
  made.push(reference);
  return reference;
}

async function derive(reference: string) {
  const image = await engine.image(reference);
  made.push(image.id);
  return image;
}

const inside = <T>(id: string, use: Parameters<typeof withIdleContainer<T>>[3]) =>
  withIdleContainer({ docker: host.docker, installation: '' }, id, {}, use);
const read = (id: string, path: string) => inside(id, (container) => readRegularFile(container, path, 100_000));
const header = (id: string, path: string) => inside(id, (container) => readHeader(container, path));

test('the base image is used as it is', async () => {
  const reference = baseImage();
  const image = await engine.image(reference);
  expect(image.id).toBe((await host.docker.getImage(reference).inspect()).Id);
  expect(image).toMatchObject({ home: '/home/agent', workingDirectory: '/workspace' });
  expect(image.env.PATH).toContain('/usr/bin');
});

test('an image without users gets agent, a home and a workspace, and keeps its settings', async () => {
  const reference = await importImage('empty', [{ name: 'x', content: 'x' }], ['ENV A="b c"', 'LABEL mine=1']);
  const image = await derive(reference);
  expect(image).toMatchObject({ home: '/home/agent', workingDirectory: '/workspace', env: { A: 'b c' } });
  expect((await read(image.id, '/etc/passwd'))?.content).toBe('agent:x:1000:1000::/home/agent:/bin/sh\n');
  expect((await read(image.id, '/etc/group'))?.content).toBe('agent:x:1000:\n');
  expect(await header(image.id, '/home')).toMatchObject({ type: 'directory', uid: 0, mode: 0o755 });
  expect(await header(image.id, '/home/agent')).toMatchObject({ type: 'directory', uid: 1000, gid: 1000, mode: 0o755 });
  expect(await header(image.id, '/workspace')).toMatchObject({ type: 'directory', uid: 1000, gid: 1000 });
  const { Config, RepoTags } = await host.docker.getImage(image.id).inspect();
  expect(Config.Labels).toMatchObject({ mine: '1', 'dev.assay.ready': '1' });
  expect(RepoTags[0]).toMatch(/^assay\/derived:[0-9a-f]{16}$/);
});

test('asking many times at once, and by another worker, gives one derived image', async () => {
  const reference = await importImage('once', [{ name: 'once', content: host.installation }]);
  const images = await Promise.all(Array.from({ length: 5 }, () => derive(reference)));
  const other = await (await host.engine()).image(reference);
  expect(new Set([...images, other].map(({ id }) => id)).size).toBe(1);
});

test('a derived image that was removed is made again', async () => {
  const reference = await importImage('again', [{ name: 'again', content: host.installation }]);
  const { id } = await derive(reference);
  await host.docker.getImage(id).remove({ force: true });
  const second = await derive(reference);
  expect((await host.docker.getImage(second.id).inspect()).Config.Labels['dev.assay.ready']).toBe('1');
});

test('a user that has uid 1000 already is the session user', async () => {
  const passwd = 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh';
  const group = 'root:x:0:\nnode:x:1000:\n';
  const image = await derive(
    await importImage('node', [
      { name: 'etc/passwd', mode: 0o600, content: passwd },
      { name: 'etc/group', content: group },
      { name: 'home/node', type: 'directory', mode: 0o700, uid: 1000, gid: 1000 },
    ]),
  );
  expect(image.home).toBe('/home/node');
  expect(await read(image.id, '/etc/passwd')).toMatchObject({ content: passwd, header: { mode: 0o600 } });
  expect(await header(image.id, '/home/node')).toMatchObject({ mode: 0o700 });
});

test('a declared volume is not made a directory of the host', async () => {
  const files = [{ name: 'data/kept', content: 'kept' }];
  const reference = await importImage('volume', files, ['VOLUME /data', 'ENV Z="1 2"']);
  const source = await host.docker.getImage(reference).inspect();
  await expect(engine.run(host.spec(source.Id))).rejects.toThrow(/volume at \/data/);
  const image = await derive(reference);
  const { Parent, Config } = await host.docker.getImage(image.id).inspect();
  made.push(Parent);
  expect(Config.Volumes ?? {}).toEqual({});
  expect(image.env).toMatchObject({ Z: '1 2' });
  expect((await read(image.id, '/data/kept'))?.content).toBe('kept');
  expect(await inside(image.id, async (container) => (await container.inspect()).Mounts)).toEqual([]);
});

test('a health check of the image does not run', async () => {
  const base = baseImage();
  const container = await host.docker.createContainer({ Image: base, Cmd: ['/bin/true'], Labels: host.labels });
  made.push(`assay-test/health:${host.installation}`);
  await container.commit({ repo: 'assay-test/health', tag: host.installation, changes: 'HEALTHCHECK CMD /bin/true' });
  await container.remove();
  const image = await engine.image(`assay-test/health:${host.installation}`);
  const { id } = await engine.run(host.spec(image.id));
  expect((await host.docker.getContainer(id).inspect()).State.Health).toBeUndefined();
  await engine.remove(id);
});

test.each<[string, File]>([
  ['a link to another file', { name: 'etc/passwd', type: 'symlink', linkname: '/etc/shadow' }],
  ['a directory', { name: 'etc/passwd', type: 'directory' }],
  ['more than a MiB', { name: 'etc/passwd', content: 'x'.repeat(1024 * 1024 + 1) }],
])('a passwd that is %s is refused with the image named', async (_, file) => {
  const reference = await importImage(`hostile-${made.length}`, [file]);
  await expect(engine.image(reference)).rejects.toMatchObject({
    reason: 'INVALID_FIELD',
    message: expect.stringContaining(reference),
  });
});

test.each(['no/such:image', 'sha256:0000', `sha256:${'1'.repeat(64)}`])('%s is not found', async (reference) => {
  await expect(engine.image(reference)).rejects.toMatchObject({ reason: 'IMAGE_NOT_FOUND' });
});

test.each(['', '../containers/json', '-x', 'a b', 'x'.repeat(1000)])('"%s" is no reference', async (reference) => {
  await expect(engine.image(reference)).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
});

test('a large archive is read no further than needed', async () => {
  const reference = await importImage('large', [
    { name: 'etc/group', content: '' },
    { name: 'workspace/big', content: 'x'.repeat(8_000_000) },
  ]);
  expect(await header(reference, '/workspace')).toMatchObject({ type: 'directory' });
});
