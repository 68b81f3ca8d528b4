import type { Command } from 'commander';
import type { SampleName } from '../clients/typescript/index.ts';
import { usageFailure } from './failure.ts';

const shape = /^([A-Za-z0-9][A-Za-z0-9._-]*)\/([A-Za-z0-9][A-Za-z0-9._-]*)(?:@([0-9A-Za-z][0-9A-Za-z.+-]*))?$/;

/** `examples/hello-fix`, or with a version behind an @. Undefined: it is something else. */
export function readSampleName(text: string | undefined): SampleName | undefined {
  const [, dataset, id, version] = shape.exec(text ?? '') ?? [];
  if (dataset === undefined || id === undefined) return undefined;
  return { dataset, id, ...(version === undefined ? {} : { version }) };
}

/** The same for the first word of a command line. Behind -- stands a command, whatever it looks like. */
export function readSampleWord(program: Command, word: string | undefined): SampleName | undefined {
  const { rawArgs } = program as Command & { readonly rawArgs: readonly string[] };
  const dashes = rawArgs.indexOf('--');
  return word === undefined || (dashes >= 0 && dashes < rawArgs.indexOf(word)) ? undefined : readSampleName(word);
}

export function requireSampleName(text: string, command: string): SampleName {
  const name = readSampleName(text);
  if (name !== undefined) return name;
  const found = `found ${JSON.stringify(text)}; expected <dataset>/<sample>, or <dataset>/<sample>@<version>`;
  throw usageFailure(found, `${command} examples/hello-fix`);
}

export function writeSampleName({ dataset, id, version }: SampleName): string {
  return `${dataset}/${id}${version === undefined ? '' : `@${version}`}`;
}
