import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { imageRecipe } from '../../shared/sample/image-recipe.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { Engine } from '../docker/engine.ts';
import type { ImageBuilder } from '../docker/image-builder.ts';
import { type FetchOptions, fetchSource } from '../image/fetch-source.ts';
import { buildContext, type ContextPart, sampleParts } from './build-context.ts';

export const imageLabel = 'dev.assay.sample-image';

/** What a build is at. */
export type BuildStep = 'fetching' | 'environment' | 'code' | 'manifest';

export interface ImageBuildDeps {
  readonly engine: Pick<Engine, 'image'>;
  readonly builder: ImageBuilder;
  readonly baseImage: string;
  /** For what is fetched and noted during a build. */
  readonly directory: string;
  readonly sources: Omit<FetchOptions, 'directory' | 'signal'>;
}

/** Builds a sample's image by its recipe. Returns its id; when it throws, nothing of it is left. */
export async function buildImage(
  deps: ImageBuildDeps,
  folder: SampleFolder,
  said: (step: BuildStep, line: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const fetched = await mkdtemp(join(deps.directory, 'build-'));
  const ground: string[] = [];
  try {
    const sources = await fetchAll(deps, folder, fetched, said, signal);
    const note = (layer: string): void => noteLayer(fetched, layer);
    const environment = await makeEnvironment(deps, folder, ground, { said, made: note }, signal);
    return await deps.builder.build({
      context: buildContext(codeParts(folder, sources)),
      dockerfile: 'Dockerfile',
      args: { ASSAY_BASE: deps.baseImage, ASSAY_ENVIRONMENT: environment },
      labels: { [imageLabel]: folder.digests.image },
      signal,
      said: (line) => said('code', line),
      made: note,
    });
  } catch (error) {
    for (const id of ground.toReversed()) await deps.builder.discard(id);
    throw error;
  } finally {
    await rm(fetched, { recursive: true, force: true });
  }
}

const layersFile = 'layers';

/** On the disk before the next step begins: a worker that dies leaves nobody else who knows. */
function noteLayer(directory: string, layer: string): void {
  appendFileSync(join(directory, layersFile), `${layer}\n`);
}

/** What builds of a worker that died had made, in order. */
export function leftLayers(directory: string): string[] {
  const builds = existsSync(directory) ? readdirSync(directory) : [];
  return builds.flatMap((build) => {
    const file = join(directory, build, layersFile);
    return existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
      : [];
  });
}

async function fetchAll(
  deps: ImageBuildDeps,
  { sample }: SampleFolder,
  directory: string,
  said: (step: BuildStep, line: string) => void,
  signal: AbortSignal,
): Promise<ContextPart[]> {
  const parts: ContextPart[] = [];
  for (const source of imageRecipe(sample).fetches) {
    signal.throwIfAborted();
    said('fetching', `fetching what must hash to ${source.integrity}`);
    const file = await fetchSource(source, { ...deps.sources, directory, signal });
    parts.push({ name: `fetched/${source.name}`, file, executable: false });
  }
  return parts;
}

/** The image that the code is put into, with the session's user in it. What was made for it goes to `images`. */
async function makeEnvironment(
  { engine, builder, baseImage }: ImageBuildDeps,
  folder: SampleFolder,
  images: string[],
  { said, made }: { said: (step: BuildStep, line: string) => void; made: (layer: string) => void },
  signal: AbortSignal,
): Promise<string> {
  const { environment } = imageRecipe(folder.sample);
  if (environment.kind === 'base') return baseImage;
  if (environment.kind === 'image') return (await engine.image(environment.image)).id;
  const { context, dockerfile } = environment;
  const id = await builder.build({
    context: buildContext(sampleParts(folder, context, context, '.')),
    dockerfile: posix.relative(context, dockerfile),
    args: { ASSAY_BASE: baseImage },
    labels: {},
    signal,
    said: (line) => said('environment', line),
    made,
  });
  images.push(id);
  const ready = await engine.image(id);
  if (ready.id !== id) images.push(ready.id);
  return ready.id;
}

function codeParts(folder: SampleFolder, sources: readonly ContextPart[]): ContextPart[] {
  const { dockerfile, recipeJson, assemblePy, samplePaths } = imageRecipe(folder.sample);
  return [
    { name: 'Dockerfile', text: dockerfile },
    { name: 'recipe.json', text: recipeJson },
    { name: 'assemble.py', text: assemblePy },
    ...sources,
    ...samplePaths.flatMap((path) => sampleParts(folder, path, '.', 'sample')),
  ];
}
