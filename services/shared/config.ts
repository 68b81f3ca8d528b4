import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type HostPattern, parseOperatorPattern } from './host-pattern.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Names of settings that are defaults, each with the name of the limit that it may not exceed. */
export type DefaultBounds = Readonly<Record<string, string>>;

/** Reads a service's settings from environment variables, all at once: one line for every bad one. */
export function readConfig<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  env: Environment,
  bounds: DefaultBounds = {},
): z.infer<z.ZodObject<Shape>> {
  const parsed = schema.safeParse(env);
  if (parsed.success) return { ...parsed.data, ...boundedDefaults(parsed.data, env, bounds) };
  const lines = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? '');
    const found = env[name] === undefined ? 'not set' : JSON.stringify(env[name]);
    return `  ${name}: ${issue.message} (found: ${found})`;
  });
  throw new ConfigError(`bad configuration:\n${lines.join('\n')}`);
}

/** The defaults that are lowered to their limits. One that the operator set is not changed: it is a contradiction. */
function boundedDefaults(
  given: Readonly<Record<string, unknown>>,
  env: Environment,
  bounds: DefaultBounds,
): Record<string, number> {
  const above = Object.entries(bounds).filter(([name, limit]) => Number(given[name]) > Number(given[limit]));
  const lines = above
    .filter(([name]) => env[name] !== undefined)
    .map(
      ([name, limit]) => `  ${name}: expected at most ${limit}, ${given[limit]} (found: ${JSON.stringify(env[name])})`,
    );
  if (lines.length > 0) throw new ConfigError(`bad configuration:\n${lines.join('\n')}`);
  return Object.fromEntries(above.map(([name, limit]) => [name, Number(given[limit])]));
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

const mebibyte = 1_048_576;

/** What a session or an execution may ask for. Requests are checked by the sessions service; workers bound their defaults by it. */
export const resourceLimits = {
  ASSAY_LIMIT_CPUS: wholeNumber(1, 64).prefault('64'),
  ASSAY_LIMIT_MEMORY_BYTES: wholeNumber(16 * mebibyte, 2 ** 40).prefault(String(2 ** 40)),
  ASSAY_LIMIT_DISK_BYTES: wholeNumber(16 * mebibyte, 2 ** 44).prefault(String(2 ** 40)),
  ASSAY_LIMIT_PIDS: wholeNumber(8, 4_194_304).prefault('65536'),
  ASSAY_LIMIT_OUTPUT_KEPT_BYTES: wholeNumber(4_096, 2 ** 40).prefault(String(1_024 * mebibyte)),
};

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
