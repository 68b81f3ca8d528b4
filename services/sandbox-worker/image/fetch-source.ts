import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Fetch } from '../../shared/sample/image-recipe.ts';
import { createIntegrityCheck } from './integrity.ts';

export interface FetchOptions {
  /** Where what was fetched is kept, by what it must hash to. */
  readonly directory: string;
  readonly npmRegistry: string;
  /** Pools of source packages, asked in order: `<pool>/<letter>/<package>/<archive>`. */
  readonly debianPools: readonly string[];
  readonly maxBytes: number;
  readonly timeoutMs: number;
  /** Gives up. */
  readonly signal?: AbortSignal;
}

export const defaultFetchOptions = {
  npmRegistry: 'https://registry.npmjs.org',
  debianPools: [
    'http://deb.debian.org/debian/pool/main',
    'http://deb.debian.org/debian-security/pool/updates/main',
    'http://archive.debian.org/debian/pool/main',
  ],
  maxBytes: 512 * 2 ** 20,
  timeoutMs: 300_000,
};

/** Something that a sample is made from cannot be had, or is not what it should be. */
export class FetchError extends Error {
  override readonly name = 'FetchError';
}

/** The path of a file that holds just what was asked for: kept from before, or fetched and checked. */
export async function fetchSource(wanted: Fetch, options: FetchOptions): Promise<string> {
  const path = join(options.directory, wanted.name);
  if (await isWhole(path, wanted.integrity)) return path;
  await mkdir(options.directory, { recursive: true });
  const failures: string[] = [];
  for (const url of addressesOf(wanted, options)) {
    options.signal?.throwIfAborted();
    const failure = await download(url, wanted.integrity, path, options);
    if (failure === undefined) return path;
    failures.push(`${url}: ${failure}`);
  }
  options.signal?.throwIfAborted();
  throw new FetchError(`cannot fetch ${describe(wanted)}:\n  ${failures.join('\n  ')}`);
}

/** Where a source may be found, in the order to ask. */
export function addressesOf({ source }: Fetch, { npmRegistry, debianPools }: FetchOptions): string[] {
  switch (source.kind) {
    case 'url':
      return [source.url];
    case 'npm': {
      const base = source.package.replace(/^@[^/]+\//, '');
      return [`${npmRegistry.replace(/\/$/, '')}/${source.package}/-/${base}-${source.version}.tgz`];
    }
    case 'debian': {
      const letter = source.package.startsWith('lib') ? source.package.slice(0, 4) : source.package.slice(0, 1);
      return debianPools.map((pool) => `${pool.replace(/\/$/, '')}/${letter}/${source.package}/${source.archive}`);
    }
  }
}

async function isWhole(path: string, integrity: string): Promise<boolean> {
  const check = createIntegrityCheck(integrity);
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) check.update(chunk);
    return check.difference() === undefined;
  } catch {
    return false;
  }
}

/** Undefined once the file is there under its name; else why it is not. */
async function download(
  url: string,
  integrity: string,
  path: string,
  { maxBytes, timeoutMs, signal }: FetchOptions,
): Promise<string | undefined> {
  const part = `${path}.${process.pid}.part`;
  let file: FileHandle | undefined;
  try {
    const late = AbortSignal.timeout(timeoutMs);
    const response = await fetch(url, { signal: signal === undefined ? late : AbortSignal.any([late, signal]) });
    if (!response.ok || response.body === null) return `status ${response.status}`;
    file = await open(part, 'w', 0o600);
    const check = createIntegrityCheck(integrity);
    let bytes = 0;
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      if (bytes > maxBytes) return `more than ${maxBytes} bytes`;
      check.update(chunk);
      await file.write(chunk);
    }
    const found = check.difference();
    if (found !== undefined) return `expected ${integrity}, found ${found}`;
    await rename(part, path);
    return undefined;
  } catch (error) {
    const { message, cause } = error as Error;
    return cause instanceof Error ? `${message} (${cause.message})` : message;
  } finally {
    await file?.close();
    await rm(part, { force: true });
  }
}

function describe({ source }: Fetch): string {
  if (source.kind === 'url') return source.url;
  return `${source.kind} ${source.package} ${source.version}`;
}
