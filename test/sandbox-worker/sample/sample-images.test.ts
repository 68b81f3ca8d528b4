import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { createImageBuilder } from '../../../services/sandbox-worker/docker/image-builder.ts';
import { defaultFetchOptions } from '../../../services/sandbox-worker/image/fetch-source.ts';
import { imageLabel } from '../../../services/sandbox-worker/sample/image-build.ts';
import {
  type BuildProgress,
  createSampleImages,
  type SampleImagesDeps,
} from '../../../services/sandbox-worker/sample/sample-images.ts';
import { createManifests, type Manifests } from '../../../services/sandbox-worker/submission/manifests.ts';
import { readSample, type SampleFolder } from '../../../services/shared/sample/read-sample.ts';
import { writeSample } from '../../sessions/sample/sample-folder.ts';
import { baseImage, createScratchHost, log, type ScratchHost, socketPath } from '../docker/scratch-host.ts';

let host: ScratchHost;
let engine: Engine;
const imageDigests = new Set<string>();

beforeAll(async () => {
  host = createScratchHost();
  engine = await host.engine();
});
afterAll(async () => {
  await host.close();
  for (const { Id } of await builtHere()) await host.docker.getImage(Id).remove({ force: true });
});

let made = 0;
/** A sample that no other run has, so that its image is not there. */
async function newSample(environment: Record<string, unknown>, dockerfile?: string): Promise<SampleFolder> {
  const id = `sample-${++made}`;
  writeSample(host.directory, `${host.installation}/${id}`, {
    codebase: [{ from: 'files', path: 'code' }],
    environment: { ...environment, ...(dockerfile === undefined ? {} : { dockerfile: 'env/Dockerfile' }) },
  });
  const folder = join(host.directory, host.installation, id);
  writeFileSync(join(folder, 'code/unique'), `${host.installation} ${id}`);
  if (dockerfile !== undefined) {
    mkdirSync(join(folder, 'env'));
    writeFileSync(join(folder, 'env/Dockerfile'), dockerfile);
    writeFileSync(join(folder, 'env/note'), 'of the environment');
  }
  const sample = await readSample(folder);
  imageDigests.add(sample.digests.image);
  return sample;
}

function imagesWith(more: Partial<SampleImagesDeps> = {}) {
  const directory = mkdtempSync(join(host.directory, 'builds-'));
  const manifestDirectory = mkdtempSync(join(host.directory, 'manifests-'));
  const manifests = createManifests({ directory: manifestDirectory, socketPath });
  const images = createSampleImages({
    engine,
    builder: createImageBuilder(socketPath),
    manifests,
    admission: { checkWork() {} },
    baseImage: baseImage(),
    directory,
    sources: defaultFetchOptions,
    builds: 2,
    sharePercent: 100,
    buildsPerProject: 100,
    buildMs: 120_000,
    log,
    ...more,
  });
  return { images, directory, manifests, manifestDirectory };
}

/** For a test that does not look at what the image holds, which takes seconds to read. */
const unread: Manifests = { of: async () => '', forget() {}, keepOnly() {} };

/** Images of this run's samples, or of one of them, finished. */
async function builtHere(of: ReadonlySet<string> = imageDigests) {
  const found = await host.docker.listImages({ filters: { label: [imageLabel] } });
  return found.filter(({ Labels }) => of.has(Labels?.[imageLabel] ?? ''));
}

/** Containers and unnamed images that a build told of and that are still there. */
async function leftOf(lines: readonly BuildProgress[]): Promise<string[]> {
  const told = (shape: RegExp) => lines.flatMap(({ line }) => shape.exec(line)?.[1] ?? []);
  const containers = told(/^ ---> Running in (\w+)$/).map((id) => host.docker.getContainer(id).inspect());
  const images = told(/^ ---> ([0-9a-f]{12})$/).map((id) => host.docker.getImage(id).inspect());
  expect(images).not.toEqual([]);
  const [foundImages, foundContainers] = await Promise.all([
    Promise.allSettled(images),
    Promise.allSettled(containers),
  ]);
  const unnamed = foundImages.filter((image) => image.status === 'fulfilled' && image.value.RepoTags.length === 0);
  return [...unnamed, ...foundContainers].flatMap((found) => (found.status === 'fulfilled' ? [found.value.Id] : []));
}

async function inContainer(image: string, script: string): Promise<string> {
  const { said } = await host.report(script, { imageId: image });
  return said;
}

const marker = (sample: SampleFolder) => `${sample.sample.dataset} ${sample.sample.id}`;

// Side by side, since a build waits for the engine most of its time; each of them then takes longer.
describe.concurrent("a sample's image", () => {
  test('is built once for all who ask, with the code as one commit, and told line by line', async () => {
    const sample = await newSample({ setup: 'echo made > built; echo "set up by $(id -un)"' });
    const { images, manifests, manifestDirectory, directory } = imagesWith();
    const heard: BuildProgress[][] = [[], []];
    const [first, second] = await Promise.all(
      heard.map((lines) => images.ensure(sample, 'alpha', (news) => lines.push(news))),
    );
    expect(first).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(second).toBe(first);
    expect(heard[0]).toEqual(heard[1]);
    expect(heard[0]).toContainEqual({ step: 'code', line: 'set up by agent' });
    expect(heard[0]?.at(-1)?.step).toBe('manifest');
    expect(readdirSync(manifestDirectory)).toEqual([first?.slice('sha256:'.length)]);
    expect(readdirSync(join(directory, 'work'))).toEqual([]);
    expect(await builtHere(new Set([sample.digests.image]))).toHaveLength(1);
    const later: BuildProgress[] = [];
    expect(await imagesWith({ manifests }).images.ensure(sample, 'alpha', (news) => later.push(news))).toBe(first);
    expect(later).toEqual([]);
    const said = await inContainer(
      first ?? '',
      'cd /workspace; git log --oneline | wc -l; cat unique built; stat -c %U . unique .git; ls -a; find / -xdev -name "*.patch" -o -xdev -name run.py 2>/dev/null',
    );
    expect(said.trim().split('\n')).toEqual([
      ...['1', `${marker(sample)}made`, 'agent', 'agent', 'agent'],
      ...['.', '..', '.git', 'built', 'deep', 'main.py', 'unique'],
    ]);
  });

  test('gets the environment of its Dockerfile, and the user that it lacks', async () => {
    const dockerfile =
      'ARG ASSAY_BASE\nFROM $ASSAY_BASE\nUSER root\nLABEL dev.assay.ready=0\nCOPY note /note\nRUN userdel agent; echo ok\n';
    const sample = await newSample({ setup: 'id -un > who', workdir: '/srv/code' }, dockerfile);
    const lines: BuildProgress[] = [];
    const id = await imagesWith({ manifests: unread }).images.ensure(sample, 'alpha', (news) => lines.push(news));
    expect(lines).toContainEqual({ step: 'environment', line: 'ok' });
    expect(await engine.image(id)).toMatchObject({ id, workingDirectory: '/srv/code' });
    expect(await inContainer(id, 'cat /note /srv/code/who /srv/code/unique')).toBe(
      `of the environmentagent\n${marker(sample)}`,
    );
  });

  test.each([
    ['another user', { user: 'root', setup: 'true' }],
    ['nobody', { user: 'nobody-here' }],
  ])('is not built where its user is %s, and says what uid 1000 is called', async (_, environment) => {
    const sample = await newSample(environment);
    await expect(imagesWith({ manifests: unread }).images.ensure(sample, 'alpha')).rejects.toMatchObject({
      reason: 'IMAGE_BUILD_FAILED',
      message: expect.stringContaining(
        `environment.user: found ${environment.user}, and uid 1000, which sessions run as, is agent`,
      ),
    });
  });

  test('that cannot be built says why with the end of its log, keeps the log, and leaves nothing', async () => {
    const sample = await newSample(
      { setup: 'echo first; echo "the reason" >&2; exit 3' },
      'ARG ASSAY_BASE\nFROM $ASSAY_BASE\nUSER root\nRUN echo environment\n',
    );
    const { images, directory } = imagesWith();
    const lines: BuildProgress[] = [];
    const failure = images.ensure(sample, 'alpha', (news) => lines.push(news));
    await expect(failure).rejects.toMatchObject({
      reason: 'IMAGE_BUILD_FAILED',
      message: expect.stringMatching(/returned a non-zero code: 3(.|\n)*the reason/),
    });
    expect(readdirSync(join(directory, 'logs'))).toHaveLength(1);
    expect(readdirSync(join(directory, 'work'))).toEqual([]);
    expect(await leftOf(lines)).toEqual([]);
  });

  test('whose build nobody waits for any more is stopped, and leaves nothing', async () => {
    const sample = await newSample({ setup: 'echo running; sleep 600' });
    const { images } = imagesWith();
    const [one, two] = [new AbortController(), new AbortController()];
    const running = Promise.withResolvers<void>();
    const lines: BuildProgress[] = [];
    const hear = (news: BuildProgress): void => {
      lines.push(news);
      if (news.line === 'running') running.resolve();
    };
    const waits = [one, two].map(({ signal }) => images.ensure(sample, 'alpha', hear, signal));
    const outcomes = Promise.allSettled(waits);
    await running.promise;
    one.abort(new Error('first left'));
    await expect(waits[0]).rejects.toThrow('first left');
    expect(await leftOf(lines)).not.toEqual([]);
    two.abort(new Error('second left'));
    await expect(waits[1]).rejects.toThrow('second left');
    await outcomes;
    expect(await leftOf(lines)).toEqual([]);
  });

  test('whose build takes too long is not built', async () => {
    const sample = await newSample({ setup: 'sleep 600' });
    await expect(imagesWith({ buildMs: 1_000 }).images.ensure(sample, 'alpha')).rejects.toMatchObject({
      reason: 'IMAGE_BUILD_FAILED',
      message: expect.stringContaining('more than 1 s'),
    });
  });
});
