import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { ImageBuilder } from '../../../services/sandbox-worker/docker/image-builder.ts';
import { imageLabel } from '../../../services/sandbox-worker/sample/image-build.ts';
import { createSampleImages, type SampleImagesDeps } from '../../../services/sandbox-worker/sample/sample-images.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { readSample, type SampleFolder } from '../../../services/shared/sample/read-sample.ts';
import { runDirectory } from '../../run.ts';
import { writeSample } from '../../sessions/sample/sample-folder.ts';
import { log } from '../docker/scratch-host.ts';

const directory = mkdtempSync(join(runDirectory(), 'build-turns-'));
afterAll(() => rmSync(directory, { recursive: true }));

const samples = new Map<string, SampleFolder>();
for (const id of ['a1', 'a2', 'a3', 'b1', 'shared']) {
  writeSample(directory, `turns/${id}`, { codebase: [{ from: 'files', path: 'code' }] });
  writeFileSync(join(directory, 'turns', id, 'code/unique'), id);
  samples.set(id, await readSample(join(directory, 'turns', id)));
}

/** Images of samples whose builds the test ends, by an engine that has none of them yet. */
function imagesWith(deps: Pick<SampleImagesDeps, 'builds' | 'buildsPerProject'>) {
  const begun: string[] = [];
  const begins = new Map([...samples.keys()].map((id) => [id, Promise.withResolvers<void>()]));
  const ends = new Map([...samples.keys()].map((id) => [id, Promise.withResolvers<string>()]));
  const named = new Set<string>();
  const builder: ImageBuilder = {
    build({ labels, signal }) {
      const [id = ''] = [...samples].find(([, { digests }]) => digests.image === labels[imageLabel]) ?? [];
      begun.push(id);
      begins.get(id)?.resolve();
      signal.addEventListener('abort', () => ends.get(id)?.reject(signal.reason));
      return ends.get(id)?.promise ?? Promise.reject(new Error(`no sample ${id}`));
    },
    async name(id, repository, tag) {
      named.add(`${repository}:${tag}`);
      return id;
    },
    async discard() {},
    async clear() {},
  };
  const images = createSampleImages({
    ...{ builder, baseImage: 'base', sharePercent: 75, buildMs: 60_000, log, ...deps },
    engine: {
      async image(id) {
        if (id.startsWith('assay/sample:') && !named.has(id)) throw new DomainError('IMAGE_NOT_FOUND', id);
        return { id, env: {}, workingDirectory: '/workspace', home: '/home/agent', users: ['agent'] };
      },
    },
    manifests: { of: async () => '', forget() {}, keepOnly() {} },
    directory: mkdtempSync(join(directory, 'builds-')),
    sources: {} as SampleImagesDeps['sources'],
    admission: { checkWork() {} },
  });
  const ask = (project: string, id: string, signal?: AbortSignal): Promise<string> => {
    const sample = samples.get(id);
    if (sample === undefined) throw new Error(`no sample ${id}`);
    const image = images.ensure(sample, project, undefined, signal);
    image.catch(() => {});
    return image;
  };
  const begin = (id: string) => begins.get(id)?.promise;
  const end = (id: string) => ends.get(id)?.resolve(`sha256:${id}`);
  return { ask, begin, begun, end };
}

test('no project builds in all slots: a build of another begins at once', async () => {
  const { ask, begin, begun, end } = imagesWith({ builds: 2, buildsPerProject: 10 });
  const asked = ['a1', 'a2', 'a3'].map((id) => ask('alpha', id));
  await begin('a1');
  asked.push(ask('beta', 'b1'));
  await begin('b1');
  expect(begun).toEqual(['a1', 'b1']);
  for (const id of samples.keys()) end(id);
  expect(await Promise.all(asked)).toEqual(['sha256:a1', 'sha256:a2', 'sha256:a3', 'sha256:b1']);
});

test('projects take turns in a single slot', async () => {
  const { ask, begun, end } = imagesWith({ builds: 1, buildsPerProject: 10 });
  const asked = ['a1', 'a2', 'a3'].map((id) => ask('alpha', id));
  asked.push(ask('beta', 'b1'));
  for (const id of samples.keys()) end(id);
  await Promise.all(asked);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3']);
});

test('an image that two projects ask for is built once, at the first turn of either', async () => {
  const { ask, begun, end } = imagesWith({ builds: 1, buildsPerProject: 10 });
  const asked = ['a1', 'a2', 'a3', 'shared'].map((id) => ask('alpha', id));
  asked.push(ask('beta', 'shared'));
  for (const id of samples.keys()) end(id);
  expect(await Promise.all(asked)).toContain('sha256:shared');
  expect(begun).toEqual(['a1', 'a2', 'shared', 'a3']);
});

test('a project that leaves a build takes it out of its own queue alone', async () => {
  const { ask, begin, begun, end } = imagesWith({ builds: 1, buildsPerProject: 2 });
  const asked = [ask('alpha', 'a1')];
  const leaving = new AbortController();
  const left = ask('alpha', 'shared', leaving.signal);
  asked.push(ask('beta', 'shared'), ask('gamma', 'b1'));
  await begin('a1');
  leaving.abort(new Error('alpha left'));
  await expect(left).rejects.toThrow('alpha left');
  asked.push(ask('alpha', 'a2'));
  for (const id of samples.keys()) end(id);
  await Promise.all(asked);
  expect(begun).toEqual(['a1', 'shared', 'b1', 'a2']);
});

test('a project has a number of builds, each counted once, and is refused more with the limit', async () => {
  const { ask, begin, begun, end } = imagesWith({ builds: 1, buildsPerProject: 2 });
  const asked = ['a1', 'a2', 'a2'].map((id) => ask('alpha', id));
  await expect(ask('alpha', 'a3')).rejects.toMatchObject({
    reason: 'BUILD_QUOTA',
    message: expect.stringContaining('has 2 images under way or waiting'),
    metadata: { limit: '2' },
  });
  asked.push(ask('beta', 'b1'));
  await begin('a1');
  for (const id of samples.keys()) end(id);
  await Promise.all(asked);
  await ask('alpha', 'a3');
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3']);
});
