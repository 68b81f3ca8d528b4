import { z } from 'zod';

/** The building blocks of a sample's fields. The message of each says what is expected; the reader adds what was found. */

export function text(maxBytes: number, what = 'text') {
  const expected = `${what} of 1 to ${maxBytes} bytes without NUL`;
  return z
    .string(expected)
    .refine((value) => value.trim() !== '' && Buffer.byteLength(value) <= maxBytes && !value.includes('\0'), expected);
}

/** One line without control characters. */
export function line(maxBytes: number, what = 'one line') {
  const expected = `${what} of 1 to ${maxBytes} bytes`;
  return z
    .string(expected)
    .refine((value) => value.trim() !== '' && Buffer.byteLength(value) <= maxBytes && !hasControl(value), expected);
}

export function shaped(shape: RegExp, expected: string) {
  return z.string(expected).regex(shape, expected);
}

export function whole(min: number, max: number, what: string) {
  const expected = `${what} from ${min} to ${max}`;
  return z.number(expected).int(expected).min(min, expected).max(max, expected);
}

export function number(min: number, max: number, what: string) {
  const expected = `${what} from ${min} to ${max}`;
  return z.number(expected).min(min, expected).max(max, expected);
}

export function list<T extends z.ZodType>(item: T, max: number, what: string) {
  const expected = `a list of at most ${max} ${what}`;
  return z.array(item, expected).max(max, expected);
}

export function object<Shape extends z.ZodRawShape>(shape: Shape) {
  const keys = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? `none but the keys ${keys}` : `a map of ${keys}`),
  });
}

/** A path below some root, in normal form: no leading slash, no `..`, no `.`, no empty part. `.` alone is the root. */
export function relativePath(what = 'a relative path') {
  const expected = `${what} such as src/main.c, without .. and without a leading /`;
  return z.string(expected).refine(isRelativePath, expected);
}

export function isRelativePath(path: string): boolean {
  if (path === '.') return true;
  if (Buffer.byteLength(path) > 1_024 || hasControl(path)) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

const units: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** Bytes, as a number or as text such as 512m. */
export function size(min: number, max: number) {
  const expected = `a size from ${min} to ${max} bytes, such as 512m`;
  return z
    .union([z.number(), z.string()], expected)
    .transform((given) => {
      const [, digits, unit] = /^(\d{1,15})([kmg]?)$/i.exec(String(given)) ?? [];
      return digits === undefined ? Number.NaN : Number(digits) * (units[(unit ?? '').toLowerCase()] ?? Number.NaN);
    })
    .refine((bytes) => Number.isSafeInteger(bytes) && bytes >= min && bytes <= max, expected);
}

/** What a fetched file must hash to: `sha512-<base64>` as npm writes it, or `sha256:<hex>` as Debian does. */
export function integrity() {
  return shaped(
    /^(sha512-[A-Za-z0-9+/]{86}==|sha256-[A-Za-z0-9+/]{43}=|sha256:[0-9a-f]{64})$/,
    'sha512-<base64>, sha256-<base64> or sha256:<hex>',
  );
}

export function environmentVariables() {
  const name = shaped(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'a name of letters, digits and _');
  const expected = 'a map of at most 256 names to text';
  return z
    .record(name, z.string('text').max(32_768, 'text of at most 32768 characters').refine(noNul, 'text without NUL'), {
      error: expected,
    })
    .refine((env) => Object.keys(env).length <= 256, expected);
}

export function hasControl(value: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\u0000-\u001f\u007f]/.test(value);
}

function noNul(value: string): boolean {
  return !value.includes('\0');
}
