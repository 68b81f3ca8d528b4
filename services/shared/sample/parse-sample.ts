import { isUtf8 } from 'node:buffer';
import { type Document, isNode, LineCounter, parseDocument } from 'yaml';
import type { z } from 'zod';
import { type Problem, SampleError } from './sample-error.ts';
import { type Sample, sampleSchema } from './sample-schema.ts';

export const sampleFileName = 'sample.yaml';
export const sampleFileBytes = 4 * 2 ** 20;
const problemLimit = 20;

/** Reads the text of a `sample.yaml`, with the line of whatever is wrong. `folder` is for the message. */
export function parseSample(bytes: Uint8Array, folder: string): Sample {
  const refuse = (problems: readonly Problem[]): SampleError => new SampleError(folder, problems);
  const whole = (expected: string, found: string): SampleError =>
    refuse([{ file: sampleFileName, path: '', expected, found }]);
  if (bytes.length > sampleFileBytes) throw whole(`at most ${sampleFileBytes} bytes`, String(bytes.length));
  if (!isUtf8(bytes)) throw whole('text in UTF-8', 'other bytes');
  const lines = new LineCounter();
  let document: Document.Parsed;
  let value: unknown;
  try {
    document = parseDocument(Buffer.from(bytes).toString(), { lineCounter: lines, uniqueKeys: true, schema: 'core' });
    if (document.errors.length > 0) throw refuse(document.errors.slice(0, problemLimit).map(yamlProblem));
    // An alias could make a small file large; a sample has no need of one.
    value = document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    if (error instanceof SampleError) throw error;
    throw whole('YAML without aliases, not nested deeply', (error as Error).message.split('\n', 1)[0] ?? '');
  }
  const parsed = sampleSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.slice(0, problemLimit);
  throw refuse(issues.map((issue) => schemaProblem(issue, value, lineOf(document, lines, issue.path))));
}

function yamlProblem(error: { message: string; linePos?: readonly { line: number }[] | undefined }): Problem {
  const line = error.linePos?.[0]?.line;
  const file = line === undefined ? sampleFileName : `${sampleFileName}:${line}`;
  return { file, path: '', expected: 'YAML', found: error.message.split('\n', 1)[0] ?? '' };
}

function schemaProblem(issue: z.core.$ZodIssue, value: unknown, line: number | undefined): Problem {
  return {
    file: line === undefined ? sampleFileName : `${sampleFileName}:${line}`,
    path: issue.path.map(String).join('.'),
    expected: issue.message,
    found: issue.code === 'unrecognized_keys' ? issue.keys.join(', ') : show(valueAt(value, issue.path)),
  };
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      inner !== null && typeof inner === 'object' && Object.hasOwn(inner, key)
        ? (inner as Record<PropertyKey, unknown>)[key]
        : undefined,
    value,
  );
}

/** The line of the deepest part of the path that is there. */
function lineOf(document: Document.Parsed, lines: LineCounter, path: readonly PropertyKey[]): number | undefined {
  for (let depth = path.length; depth >= 0; depth -= 1) {
    const node = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

const shownCharacters = 80;

function show(value: unknown): string {
  if (value === undefined || value === null) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object') return 'a map';
  const text = JSON.stringify(value);
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}
