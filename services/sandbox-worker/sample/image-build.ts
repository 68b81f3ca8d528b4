import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { defaultUser } from '../../shared/sample/environment-schema.ts';
import { imageRecipe } from '../../shared/sample/image-recipe.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { Engine } from '../docker/engine.ts';
import { BuildStepError, type ImageBuilder, marked } from '../docker/image-builder.ts';
import { type FetchOptions, fetchSource } from '../image/fetch-source.ts';
import { buildContext, type ContextPart, sampleParts } from './build-context.ts';

export const imageLabel = 'dev.assay.sample-image';

/** What a build is at. */
export type BuildStep = 'fetching' | 'environment' | 'code' | 'manifest';

export interface ImageBuildDeps {
  readonly engine: Pick<Engine, 'image'>;
  readonly builder: ImageBuilder;
  readonly baseImage: string;
  /** Has a folder for each build that is under way, named after its mark. */
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
  // On the disk before anything is made: a worker that starts after this one died knows by it what to look for.
  const mark = randomBytes(12).toString('hex');
  const fetched = join(deps.directory, mark);
  await mkdir(fetched, { mode: 0o700 });
  const ground: string[] = [];
  try {
    const sources = await fetchAll(deps, folder, fetched, said, signal);
    const environment = await makeEnvironment(deps, folder, { mark, images: ground, said }, signal);
    checkUser(folder, (await deps.engine.image(environment)).users);
    return await deps.builder.build({
      context: buildContext(codeParts(folder, sources, mark)),
      dockerfile: 'Dockerfile',
      args: { ASSAY_BASE: deps.baseImage, ASSAY_ENVIRONMENT: environment },
      labels: { [imageLabel]: folder.digests.image },
      mark,
      signal,
      said: (line) => said('code', line),
    });
  } catch (error) {
    for (const id of ground.toReversed()) await deps.builder.discard(id);
    throw error;
  } finally {
    await rm(fetched, { recursive: true, force: true });
  }
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
  { mark, images, said }: { mark: string; images: string[]; said: (step: BuildStep, line: string) => void },
  signal: AbortSignal,
): Promise<string> {
  const { environment } = imageRecipe(folder.sample);
  if (environment.kind === 'base') return baseImage;
  if (environment.kind === 'image') return (await engine.image(environment.image)).id;
  const { context, dockerfile } = environment;
  const name = posix.relative(context, dockerfile);
  const text = await readFile(join(folder.folder, dockerfile), 'utf8');
  const others = sampleParts(folder, context, context, '.').filter((part) => part.name !== name);
  const id = await builder.build({
    context: buildContext([...others, { name, text: marked(text, mark) }]),
    dockerfile: name,
    args: { ASSAY_BASE: baseImage },
    labels: {},
    mark,
    signal,
    said: (line) => said('environment', line),
  });
  images.push(id);
  const ready = await engine.image(id);
  if (ready.id !== id) images.push(ready.id);
  return ready.id;
}

/** Sessions run as uid 1000: another user would be a promise that nobody keeps. */
function checkUser({ sample: { environment } }: SampleFolder, users: readonly string[]): void {
  const { user, setup } = environment;
  if (users.includes(user) || (user === defaultUser && setup === undefined)) return;
  const message = `environment.user: found ${user}, and uid 1000, which sessions run as, is ${users.join(' or ')} in the image`;
  throw new BuildStepError(`${message}; expected that name, or an image that calls it ${user}`);
}

function codeParts(folder: SampleFolder, sources: readonly ContextPart[], mark: string): ContextPart[] {
  const { dockerfile, recipeJson, assemblePy, samplePaths } = imageRecipe(folder.sample);
  return [
    { name: 'Dockerfile', text: marked(dockerfile, mark) },
    { name: 'recipe.json', text: recipeJson },
    { name: 'assemble.py', text: assemblePy },
    ...sources,
    ...samplePaths.flatMap((path) => sampleParts(folder, path, '.', 'sample')),
  ];
}
