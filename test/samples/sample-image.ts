import { type createReadStream, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { pack } from 'tar-stream';
import { inject } from 'vitest';
import { defaultFetchOptions, fetchSource } from '../../services/sandbox-worker/image/fetch-source.ts';
import { entriesBelow } from '../../services/shared/sample/digest.ts';
import { imageRecipe } from '../../services/shared/sample/image-recipe.ts';
import type { SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { runDirectory } from '../run.ts';

type Part = { name: string; content: Buffer; executable?: boolean } | { name: string; link: string };

/** Builds a sample's image by its recipe, unless an earlier run did. Returns its name. */
export async function buildSampleImage(folder: SampleFolder): Promise<string> {
  const { dockerSocket, baseImage } = inject('setup');
  const docker = new Docker({ socketPath: dockerSocket, host: undefined });
  const key = `${folder.digests.image.slice(7, 23)}-${baseImage.replace(/.*:/, '')}`;
  const name = `assay/sample-test:${key}`;
  if (
    await docker
      .getImage(name)
      .inspect()
      .catch(() => undefined)
  )
    return name;
  const recipe = imageRecipe(folder.sample);
  const { environment } = recipe;
  let ground = environment.kind === 'image' ? environment.image : baseImage;
  if (environment.kind === 'dockerfile') {
    ground = `assay/sample-test-environment:${key}`;
    const context = partsOf(folder, environment.context).map((part) => {
      return { ...part, name: part.name.slice(environment.context.length + 1) };
    });
    const dockerfile = environment.dockerfile.slice(environment.context.length + 1);
    await build(docker, ground, dockerfile, { ASSAY_BASE: baseImage }, context);
  }
  const directory = mkdtempSync(join(runDirectory(), 'fetched-'));
  const parts: Part[] = [
    { name: 'Dockerfile', content: Buffer.from(recipe.dockerfile) },
    { name: 'recipe.json', content: Buffer.from(recipe.recipeJson) },
    { name: 'assemble.py', content: Buffer.from(recipe.assemblePy) },
  ];
  for (const fetch of recipe.fetches) {
    const path = await fetchSource(fetch, { ...defaultFetchOptions, directory });
    parts.push({ name: `fetched/${fetch.name}`, content: readFileSync(path) });
  }
  for (const path of recipe.samplePaths) {
    parts.push(...partsOf(folder, path).map((part) => ({ ...part, name: `sample/${part.name}` })));
  }
  await build(docker, name, 'Dockerfile', { ASSAY_BASE: baseImage, ASSAY_ENVIRONMENT: ground }, parts);
  rmSync(directory, { recursive: true });
  return name;
}

function partsOf(folder: SampleFolder, path: string): Part[] {
  return entriesBelow(folder.entries, path).flatMap((entry): Part[] => {
    if (entry.kind === 'link') return [{ name: entry.path, link: entry.target }];
    if (entry.kind === 'directory') return [];
    const content = readFileSync(join(folder.folder, entry.path));
    return [{ name: entry.path, content, executable: entry.executable }];
  });
}

async function build(
  docker: Docker,
  name: string,
  dockerfile: string,
  buildargs: Record<string, string>,
  parts: readonly Part[],
): Promise<void> {
  const tar = pack();
  for (const part of parts) {
    if ('link' in part) tar.entry({ name: part.name, type: 'symlink', linkname: part.link });
    else tar.entry({ name: part.name, mode: part.executable ? 0o755 : 0o644 }, part.content);
  }
  tar.finalize();
  const options = { t: name, dockerfile, buildargs, networkmode: 'host', forcerm: true, rm: true };
  const stream = await docker.buildImage(tar as unknown as ReturnType<typeof createReadStream>, options);
  const said: string[] = [];
  let failure = '';
  await new Promise<void>((resolve) => {
    docker.modem.followProgress(
      stream,
      () => resolve(),
      (event: { stream?: string; error?: string }) => {
        said.push(event.stream ?? '');
        failure ||= event.error ?? '';
      },
    );
  });
  if (failure !== '') throw new Error(`${failure}\n${said.slice(-40).join('')}`);
}
