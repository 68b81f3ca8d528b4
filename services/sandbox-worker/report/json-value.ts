import { ReportError } from './test-row.ts';

/** A JSON text with a bound on how deeply it nests; the parser's own recursion is safe, that of readers is not. */
export function parseJson(text: string, depth: number): unknown {
  let nested = 0;
  let quoted = false;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (quoted) {
      if (code === 0x5c) index += 1;
      else if (code === 0x22) quoted = false;
    } else if (code === 0x22) quoted = true;
    else if (code === 0x5b || code === 0x7b) {
      nested += 1;
      if (nested > depth) throw new ReportError(`JSON nested more than ${depth} deep`);
    } else if (code === 0x5d || code === 0x7d) nested -= 1;
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ReportError(`not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

/** Own fields of a JSON object; an empty record for anything else. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}
