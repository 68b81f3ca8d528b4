import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { CodebasePart } from './codebase-schema.ts';
import { canonicalJson, digestOf, entriesBelow, entryLine } from './digest.ts';
import type { FolderEntry } from './folder.ts';
import type { Sample } from './sample-schema.ts';

/** Something that the build has to have before it begins, and what it must hash to. */
export interface Fetch {
  /** Its name in the context's folder `fetched`. */
  readonly name: string;
  readonly integrity: string;
  readonly source:
    | { readonly kind: 'url'; readonly url: string }
    | { readonly kind: 'npm'; readonly package: string; readonly version: string }
    | { readonly kind: 'debian'; readonly package: string; readonly version: string; readonly archive: string };
}

/**
 * How a sample's image is made, in two builds. The first makes the environment (from the sample's Dockerfile, or it is an
 * image that is there). The second puts the code into it; its context holds `recipe.json`, `assemble.py`, `fetched/` and
 * `sample/`, and it takes the build arguments ASSAY_BASE and ASSAY_ENVIRONMENT.
 */
export interface ImageRecipe {
  readonly environment:
    | { readonly kind: 'base' }
    | { readonly kind: 'image'; readonly image: string }
    | { readonly kind: 'dockerfile'; readonly dockerfile: string; readonly context: string };
  readonly dockerfile: string;
  readonly recipeJson: string;
  readonly assemblePy: string;
  readonly fetches: readonly Fetch[];
  /** Files and folders of the sample that go to `sample/` of the second context, under the same path. */
  readonly samplePaths: readonly string[];
}

const assemblePy = readFileSync(new URL('./assemble.py', import.meta.url), 'utf8');
const agent = 1000;

export function imageRecipe(sample: Sample): ImageRecipe {
  const fetches = sample.codebase.flatMap(fetchesOf);
  const steps = sample.codebase.map((part) => ({ ...part, fetched: fetchesOf(part).map(({ name }) => name) }));
  return {
    environment: environmentOf(sample),
    dockerfile: dockerfileOf(sample),
    recipeJson: canonicalJson({ steps, setup: sample.environment.setup ?? '' }),
    assemblePy,
    fetches: [...new Map(fetches.map((fetch) => [fetch.name, fetch])).values()],
    samplePaths: sample.codebase.flatMap((part) => (part.from === 'files' || part.from === 'patch' ? [part.path] : [])),
  };
}

/** The digest of recipe and context. The base image is no part of it: its own name has a digest. */
export function imageDigest(sample: Sample, entries: readonly FolderEntry[]): string {
  const recipe = imageRecipe(sample);
  const { environment } = recipe;
  const context = environment.kind === 'dockerfile' ? entriesBelow(entries, environment.context) : [];
  const parts = recipe.samplePaths.flatMap((path) => entriesBelow(entries, path));
  return digestOf('assay image 1', [
    canonicalJson(environment),
    recipe.dockerfile,
    recipe.recipeJson,
    recipe.assemblePy,
    canonicalJson(recipe.fetches),
    ...context.map(entryLine),
    ...parts.map(entryLine),
  ]);
}

function environmentOf({ environment: { image, dockerfile } }: Sample): ImageRecipe['environment'] {
  if (image !== undefined) return { kind: 'image', image };
  if (dockerfile !== undefined) return { kind: 'dockerfile', dockerfile, context: posix.dirname(dockerfile) };
  return { kind: 'base' };
}

/** The code is assembled in the base image, which has the tools for it; the sample's own need not have any. */
function dockerfileOf({ environment }: Sample): string {
  const { workdir, user } = environment;
  return [
    'ARG ASSAY_BASE',
    'ARG ASSAY_ENVIRONMENT',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Docker's own syntax
    'FROM ${ASSAY_BASE} AS codebase',
    'USER root',
    'COPY . /assay/',
    'RUN python3 -I /assay/assemble.py /assay /codebase',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Docker's own syntax
    'FROM ${ASSAY_ENVIRONMENT}',
    'USER root',
    `COPY --from=codebase --chown=${agent}:${agent} /codebase/ ${workdir}/`,
    `WORKDIR ${workdir}`,
    `USER ${user}`,
    ...(environment.setup === undefined ? [] : [`RUN ${JSON.stringify(['/bin/sh', '-euc', environment.setup])}`]),
    '',
  ].join('\n');
}

function fetchesOf(part: CodebasePart): Fetch[] {
  switch (part.from) {
    case 'tar':
      return [{ name: fetchName(part.integrity), integrity: part.integrity, source: { kind: 'url', url: part.url } }];
    case 'npm': {
      const source = { kind: 'npm', package: part.package, version: part.version } as const;
      return [{ name: fetchName(part.integrity), integrity: part.integrity, source }];
    }
    case 'debian':
      return part.archives.map(({ name, integrity }) => {
        const source = { kind: 'debian', package: part.package, version: part.version, archive: name } as const;
        return { name: fetchName(integrity), integrity, source };
      });
    default:
      return [];
  }
}

/** Named by what it must hold, so that a cache needs no other key. */
function fetchName(integrity: string): string {
  return createHash('sha256').update(integrity).digest('hex').slice(0, 32);
}
