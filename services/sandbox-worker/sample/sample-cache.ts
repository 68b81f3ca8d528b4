import { mkdirSync, rmSync } from 'node:fs';
import { mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { FolderLimits } from '../../shared/sample/folder.ts';
import { readSample, type SampleFolder } from '../../shared/sample/read-sample.ts';
import { SampleError } from '../../shared/sample/sample-error.ts';
import type { SampleReader } from '../../shared/store/sample-store.ts';
import { TarError } from '../submission/tar-header.ts';
import { SampleArchiveError, unpackSample } from './unpack-sample.ts';

/** The contents of samples on this host, each fetched once and checked against its digest. */
export interface SampleCache {
  /**
   * The folder stays at least while it is among the latest `keptAlways` that were asked for. SAMPLE_NOT_FOUND: nobody has
   * stored it.
   */
  folder(contentDigest: string): Promise<SampleFolder>;
}

export interface SampleCacheDeps {
  /** Its own: what lies in it from an earlier life is removed. */
  readonly directory: string;
  readonly store: SampleReader;
  readonly limits: FolderLimits;
  /** Of all folders together; beyond it those go that were asked for longest ago. */
  readonly maxBytes: number;
  /** More than can be in use at one time. */
  readonly keptAlways?: number;
}

export function createSampleCache(deps: SampleCacheDeps): SampleCache {
  const { directory, maxBytes, keptAlways = 32 } = deps;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  /** The one that was asked for last is last. */
  const known = new Map<string, Promise<SampleFolder>>();
  const sizes = new Map<string, number>();

  const makeRoom = async (): Promise<void> => {
    for (const digest of [...known.keys()].slice(0, -keptAlways)) {
      if (sumOf(sizes) <= maxBytes) return;
      // It is being fetched, and lies nowhere yet.
      if (!sizes.has(digest)) continue;
      known.delete(digest);
      sizes.delete(digest);
      await discard(directory, join(directory, hexOf(digest)));
    }
  };
  const add = async (digest: string, folder: string): Promise<SampleFolder> => {
    const sample = await fetchSample(deps, digest, folder);
    sizes.set(digest, sizeOf(sample));
    await makeRoom();
    return sample;
  };
  return {
    async folder(contentDigest) {
      const folder = join(directory, hexOf(contentDigest));
      const sample = known.get(contentDigest) ?? add(contentDigest, folder);
      known.delete(contentDigest);
      known.set(contentDigest, sample);
      sample.catch(() => {
        if (known.get(contentDigest) === sample) known.delete(contentDigest);
      });
      return sample;
    },
  };
}

async function fetchSample(deps: SampleCacheDeps, digest: string, folder: string): Promise<SampleFolder> {
  const archive = await deps.store.get(digest);
  if (archive === undefined) {
    const message = `the store has no sample with the content ${digest}; build the sample, or create a session from it`;
    throw new DomainError('SAMPLE_NOT_FOUND', message, { content_digest: digest });
  }
  const part = await mkdtemp(join(deps.directory, 'unfinished-'));
  try {
    await unpackSample(archive, part, deps.limits);
    const sample = await readSample(part, deps.limits);
    const { content } = sample.digests;
    if (content !== digest) throw new SampleArchiveError(`the archive holds the content ${content}`);
    await rename(part, folder);
    return { ...sample, folder };
  } catch (error) {
    throw asDomainError(digest, error);
  } finally {
    await rm(part, { recursive: true, force: true });
  }
}

/** Under another name first: it may be asked for again while it is being removed. */
async function discard(directory: string, folder: string): Promise<void> {
  const doomed = await mkdtemp(join(directory, 'doomed-'));
  await rename(folder, doomed);
  await rm(doomed, { recursive: true, force: true });
}

function asDomainError(digest: string, error: unknown): unknown {
  const broken = [SampleArchiveError, SampleError, TarError].some((kind) => error instanceof kind);
  if (!broken) return error;
  const message = `what the store has as the sample ${digest} is another: ${(error as Error).message}`;
  return new DomainError('SAMPLE_CHANGED', message, { content_digest: digest }, { cause: error });
}

/** As far as the disk is concerned: every entry takes a block at least. */
function sizeOf({ entries }: SampleFolder): number {
  return entries.reduce((sum, entry) => sum + 4_096 + (entry.kind === 'file' ? entry.bytes : 0), 0);
}

function sumOf(sizes: ReadonlyMap<string, number>): number {
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

function hexOf(digest: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hex === undefined) throw new DomainError('INTERNAL', `"${digest}" is no digest; expected sha256:<hex>`);
  return hex;
}
