import { z } from 'zod';
import { integrity, line, list, object, relativePath, shaped, whole } from './field.ts';

/** Where a part lands, below the working directory. */
const to = relativePath().default('.');
/** Leading directories of an archive that are left out. */
const strip = whole(0, 8, 'a number of leading directories').default(1);

const files = object({ from: z.literal('files'), path: relativePath('a folder of the sample'), to });

const tar = object({
  from: z.literal('tar'),
  url: shaped(/^https?:\/\/[^\s\\]{1,2000}$/, 'an http or https address'),
  integrity: integrity(),
  strip,
  to,
});

const npm = object({
  from: z.literal('npm'),
  package: shaped(/^(@[a-z0-9][a-z0-9._-]{0,100}\/)?[a-z0-9][a-z0-9._-]{0,200}$/, "a package's name"),
  version: shaped(/^\d+\.\d+\.\d+[0-9A-Za-z.+-]{0,60}$/, 'an exact version such as 1.2.5'),
  integrity: integrity(),
  to,
});

const patchNames = list(relativePath('the name of a patch in debian/patches'), 500, 'names of patches').default([]);

/** A Debian source package: the original archive, then the patches of the package that are wanted. */
const debian = object({
  from: z.literal('debian'),
  package: shaped(/^[a-z0-9][a-z0-9+.-]{1,100}$/, "a source package's name"),
  version: shaped(/^[0-9][0-9A-Za-z.+~:-]{0,100}$/, "the source package's version"),
  /** The original archive and the one with `debian/`, in this order. */
  archives: list(
    object({ name: shaped(/^[a-z0-9][A-Za-z0-9+.~_-]{1,200}$/, "an archive's file name"), integrity: integrity() }),
    2,
    'archives',
  ).min(1, 'the original archive, and the one with debian/ where a patch is named'),
  /** Patches of `debian/patches` to apply, in order. The fix is not among them. */
  apply: patchNames,
  /** Patches to take back, in order, where only the mended original is to be had. */
  reverse: patchNames,
  to,
});

const patch = object({
  from: z.literal('patch'),
  path: relativePath('a patch in the sample'),
  reverse: z.boolean('true or false').default(false),
  strip: whole(0, 8, 'a number of leading directories').default(1),
  to,
});

/** Removes what is not part of the task, such as published build output. */
const remove = object({
  from: z.literal('remove'),
  paths: list(relativePath('a path of the codebase'), 1_000, 'paths').min(1, 'at least one path'),
});

/** The parts that make up the code the agent finds, laid over each other in order. */
export const codebaseSchema = list(
  z.discriminatedUnion('from', [files, tar, npm, debian, patch, remove], {
    error: 'a part with from: files, tar, npm, debian, patch or remove',
  }),
  32,
  'parts',
);

export type Codebase = z.output<typeof codebaseSchema>;
export type CodebasePart = Codebase[number];

export const provenanceSchema = object({
  /** Where the code and the task come from, in a sentence. */
  origin: line(1_024),
  url: shaped(/^https?:\/\/[^\s\\]{1,2000}$/, 'an http or https address').optional(),
  license: line(128, 'an SPDX expression').optional(),
  /** Public names of the flaw, such as CVE-2021-44906. */
  references: list(line(512), 32, 'references').default([]),
  /** What the code was made from, each with what it must hash to. Parts of the codebase carry their own. */
  sources: list(object({ name: line(256), integrity: integrity() }), 64, 'sources').default([]),
});
