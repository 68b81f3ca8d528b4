import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type HostPattern, parseOperatorPattern } from './host-pattern.ts';

/** Reads a service's settings from environment variables, all at once: one line for every bad one. */
export function readConfig<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  env: Readonly<Record<string, string | undefined>>,
): z.infer<z.ZodObject<Shape>> {
  const parsed = schema.safeParse(env);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? '');
    const found = env[name] === undefined ? 'not set' : JSON.stringify(env[name]);
    return `  ${name}: ${issue.message} (found: ${found})`;
  });
  throw new ConfigError(`bad configuration:\n${lines.join('\n')}`);
}

export class ConfigError extends Error {
  /** How a process ends with it, EX_CONFIG: starting it again would mend nothing. */
  static readonly exitCode = 78;
}

/** How much a service writes to its log. */
export const logLevel = () => z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).prefault('info');

/** A whole number within bounds, from text. */
export function wholeNumber(min: number, max: number): z.ZodType<number, string | undefined> {
  return z.coerce
    .number(`expected a whole number from ${min} to ${max}`)
    .int(`expected a whole number from ${min} to ${max}`)
    .min(min, `expected at least ${min}`)
    .max(max, `expected at most ${max}`) as unknown as z.ZodType<number, string | undefined>;
}

/** `host:port`; port 0 means any free one. */
export function hostAndPort(): z.ZodType<{ host: string; port: number }, string | undefined> {
  return z
    .string('expected host:port, such as 127.0.0.1:7070')
    .regex(/^[^\s]+:\d{1,5}$/, 'expected host:port, such as 127.0.0.1:7070')
    .transform((text) => {
      const colon = text.lastIndexOf(':');
      return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) };
    })
    .refine(({ port }) => port < 65_536, 'expected a port below 65536') as unknown as z.ZodType<
    { host: string; port: number },
    string | undefined
  >;
}

/** A list with commas or spaces between its entries, each read by `parse`. */
export function listOf<T>(
  parse: (entry: string) => T | undefined,
  expected: string,
): z.ZodType<T[], string | undefined> {
  return z.string().transform((text, context) => {
    const entries = text.split(/[\s,]+/).filter((entry) => entry !== '');
    return entries.flatMap((entry) => {
      const found = parse(entry);
      if (found !== undefined) return [found];
      context.addIssue({ code: 'custom', message: `${JSON.stringify(entry)} is not ${expected}` });
      return [];
    });
  }) as unknown as z.ZodType<T[], string | undefined>;
}

/** Hosts that an operator allows. */
export function hostPatterns(): z.ZodType<HostPattern[], string | undefined> {
  return listOf(parseOperatorPattern, 'a host, *.host or *, each with or without :port or :*');
}

/** A secret kept in a file, without its trailing newline. */
export function readSecretFile(path: string, name: string): string {
  try {
    const secret = readFileSync(path, 'utf8').trim();
    if (secret === '') throw new ConfigError(`${name}: ${path} is empty; expected a secret`);
    return secret;
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`${name}: cannot read ${path}: ${(error as Error).message}`);
  }
}
