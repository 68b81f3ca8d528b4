import { z } from 'zod';
import { codebaseSchema, provenanceSchema } from './codebase-schema.ts';
import { environmentSchema } from './environment-schema.ts';
import { line, list, object, relativePath, shaped, text } from './field.ts';
import { verificationSchema } from './verification-schema.ts';

const name = (what: string) =>
  shaped(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, `${what} of up to 128 letters, digits and . _ -`);

/** What a correct solution is, for validation. Never shown to an agent's key. */
const oracle = z
  .union(
    [
      object({ patch: relativePath('a patch of the sample') }),
      object({ files: relativePath('a folder of the sample') }),
      object({ script: relativePath('a shell script of the sample') }),
    ],
    { error: 'one of patch, files and script with a path of the sample' },
  )
  .optional();

/** The whole of `sample.yaml`. */
export const sampleSchema = object({
  format: z.literal('assay/1', 'assay/1'),
  dataset: name("the dataset's name"),
  id: name("the sample's id"),
  version: shaped(/^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$/, 'a version such as 1.0.0'),
  language: shaped(/^[a-z][a-z0-9+#.-]{0,31}$/, 'a language in lower case, such as python'),
  tags: list(shaped(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'a tag in lower case'), 32, 'tags').default([]),
  /** What the sample is, in one line. */
  title: line(200),
  provenance: provenanceSchema,
  /** The task, as the agent reads it. */
  instruction: text(262_144),
  /** Further help, from the smallest to the largest; given only where a caller asks for it. */
  hints: list(text(16_384), 16, 'hints').default([]),
  codebase: codebaseSchema.min(1, 'at least one part'),
  environment: environmentSchema.prefault({}),
  verification: verificationSchema,
  oracle,
});

export type Sample = z.output<typeof sampleSchema>;
