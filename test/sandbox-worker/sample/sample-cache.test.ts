import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Header, pack } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSampleCache, type SampleCacheDeps } from '../../../services/sandbox-worker/sample/sample-cache.ts';
import { wholeArchive } from '../../../services/sessions/sample/sample-archive.ts';
import { createSampleShelf } from '../../../services/sessions/sample/sample-shelf.ts';
import { readSample, type SampleFolder } from '../../../services/shared/sample/read-sample.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsSampleReader, createNatsSampleStore } from '../../../services/shared/store/nats-sample-store.ts';
import { runDirectory } from '../../run.ts';
import { writeSample } from '../../sessions/sample/sample-folder.ts';
import { type NatsProcess, startNats } from '../../shared/store/nats-process.ts';

const mebibyte = 2 ** 20;
const limits = { bytes: mebibyte, files: 100 };
let root: string;
let nats: NatsProcess;
let broker: Broker;

beforeAll(async () => {
  root = mkdtempSync(join(runDirectory(), 'sample-cache-'));
  nats = await startNats();
  broker = await connectBroker({ ...nats, url: nats.url, name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
  rmSync(root, { recursive: true, force: true });
});

let made = 0;
async function newSample(): Promise<SampleFolder> {
  const id = `sample-${++made}`;
  writeSample(root, `d/${id}`);
  const folder = join(root, 'd', id);
  mkdirSync(join(folder, 'code/späße'));
  writeFileSync(join(folder, 'code/späße/run.sh'), `echo ${id}\n`, { mode: 0o755 });
  return readSample(folder);
}

function cacheOf(store: SampleCacheDeps['store'], more: Partial<SampleCacheDeps> = {}) {
  const directory = mkdtempSync(join(root, 'cache-'));
  return { directory, cache: createSampleCache({ directory, store, limits, maxBytes: 64 * mebibyte, ...more }) };
}

/** A store that has one archive under every digest, and counts. */
function storeOf(archive: () => AsyncIterable<Uint8Array>) {
  const store = {
    asked: 0,
    async get() {
      store.asked += 1;
      return (async function* () {
        yield* archive();
      })();
    },
  };
  return store;
}

function archiveOf(...entries: [Partial<Header> & { name: string }, string?][]): () => AsyncIterable<Uint8Array> {
  return () => {
    const tar = pack();
    for (const [header, content] of entries) tar.entry(header, content ?? '');
    tar.finalize();
    return tar as unknown as AsyncIterable<Uint8Array>;
  };
}

describe("a sample's contents", () => {
  test('travel whole from the sessions service to a worker, and are fetched once', async () => {
    const sample = await newSample();
    const store = await createNatsSampleStore(broker, { keepMs: 86_400_000, maxBytes: 16 * mebibyte, replicas: 1 });
    const shelf = createSampleShelf(store);
    await Promise.all([shelf.provide(sample), shelf.provide(sample)]);
    await shelf.provide(sample);
    const { cache, directory } = cacheOf(createNatsSampleReader(broker));
    const [first, second] = await Promise.all([1, 2].map(() => cache.folder(sample.digests.content)));
    expect(first).toBe(second);
    expect(first).toMatchObject({ digests: sample.digests, entries: sample.entries });
    expect(first?.folder.startsWith(directory)).toBe(true);
    expect(readFileSync(join(first?.folder ?? '', 'tests/run.py'), 'utf8')).toBe('SECRET hidden test\n');
    expect(statSync(join(first?.folder ?? '', 'code/späße/run.sh')).mode & 0o777).toBe(0o755);
    expect(readdirSync(directory)).toHaveLength(1);
  });

  test('that nobody stored are not found, and can be stored later', async () => {
    const sample = await newSample();
    const store = await createNatsSampleStore(broker, { keepMs: 86_400_000, maxBytes: 16 * mebibyte, replicas: 1 });
    const { cache } = cacheOf(createNatsSampleReader(broker));
    await expect(cache.folder(sample.digests.content)).rejects.toMatchObject({ reason: 'SAMPLE_NOT_FOUND' });
    await createSampleShelf(store).provide(sample);
    expect((await cache.folder(sample.digests.content)).sample.id).toBe(sample.sample.id);
  });

  test('are refused where their digest is another, and leave nothing', async () => {
    const [wanted, other] = [await newSample(), await newSample()];
    const { cache, directory } = cacheOf(storeOf(() => wholeArchive(other)));
    await expect(cache.folder(wanted.digests.content)).rejects.toMatchObject({
      reason: 'SAMPLE_CHANGED',
      message: expect.stringContaining(other.digests.content),
    });
    expect(readdirSync(directory)).toEqual([]);
  });

  test('of those that were needed longest ago are removed when there are too many', async () => {
    const samples = [await newSample(), await newSample(), await newSample()];
    const archives = new Map(samples.map((sample) => [sample.digests.content, sample]));
    const store = { get: async (digest: string) => wholeArchive(archives.get(digest) as SampleFolder) };
    const { cache, directory } = cacheOf(store, { maxBytes: 1, keptAlways: 2 });
    const folders: string[] = [];
    for (const { digests } of samples) folders.push((await cache.folder(digests.content)).folder);
    expect(folders.map((folder) => existsSync(folder))).toEqual([false, true, true]);
    expect(readdirSync(directory)).toHaveLength(2);
    expect((await cache.folder(samples[0]?.digests.content ?? '')).folder).toBe(folders[0]);
  });
});

test('one that is being fetched is in nobody’s way when there are too many', async () => {
  const samples = [await newSample(), await newSample(), await newSample()];
  const archives = new Map(samples.map((sample) => [sample.digests.content, sample]));
  const [slow, ...others] = samples.map(({ digests }) => digests.content) as [string, string, string];
  const gate = Promise.withResolvers<void>();
  const store = {
    async get(digest: string) {
      if (digest === slow) await gate.promise;
      return wholeArchive(archives.get(digest) as SampleFolder);
    },
  };
  const { cache } = cacheOf(store, { maxBytes: 1, keptAlways: 1 });
  const coming = cache.folder(slow);
  for (const digest of others) await cache.folder(digest);
  gate.resolve();
  expect((await coming).digests.content).toBe(slow);
});

describe('an archive', () => {
  const digest = `sha256:${createHash('sha256').digest('hex')}`;
  const file: Partial<Header> & { name: string } = { name: 'sample.yaml', mode: 0o644 };
  test.each<[string, () => AsyncIterable<Uint8Array>, RegExp]>([
    ['leads out by its names', archiveOf([{ name: '../evil' }, 'x']), /leads out/],
    ['names the root', archiveOf([{ name: '/etc/evil' }, 'x']), /leads out/],
    [
      'writes through a link',
      archiveOf([{ name: 'out', type: 'symlink', linkname: '..' }], [{ name: 'out/evil' }, 'x']),
      /did not come before/,
    ],
    [
      'replaces a folder by a link',
      archiveOf([{ name: 'a/', type: 'directory' }], [{ name: 'a', type: 'symlink', linkname: '..' }]),
      /comes twice/,
    ],
    ['has one file twice', archiveOf([file, 'x'], [file, 'y']), /comes twice/],
    [
      'has a link that leads out',
      archiveOf([file, 'x'], [{ name: 'l', type: 'symlink', linkname: '/etc' }]),
      /same folder/,
    ],
    ['has a hard link', archiveOf([file, 'x'], [{ name: 'l', type: 'link', linkname: 'sample.yaml' }]), /neither/],
    ['has a device', archiveOf([{ name: 'd', type: 'character-device' }]), /neither/],
    ['is too large', archiveOf([{ name: 'big' }, 'x'.repeat(mebibyte + 1)]), /more than/],
    [
      'has too many entries',
      archiveOf(...Array.from({ length: 101 }, (_, n): [{ name: string }] => [{ name: `f${n}` }])),
      /more than/,
    ],
    [
      'is no archive',
      () =>
        (async function* () {
          yield Buffer.alloc(700, 7);
        })(),
      /tar/,
    ],
    ['has no sample.yaml', archiveOf([{ name: 'other' }, 'x']), /sample.yaml/],
  ])('that %s is refused and leaves nothing', async (_, archive, message) => {
    const store = storeOf(archive);
    const { cache, directory } = cacheOf(store);
    await expect(cache.folder(digest)).rejects.toMatchObject({
      reason: 'SAMPLE_CHANGED',
      message: expect.stringMatching(message),
    });
    expect(readdirSync(directory)).toEqual([]);
    await cache.folder(digest).catch(() => {});
    expect(store.asked).toBe(2);
  });
});
