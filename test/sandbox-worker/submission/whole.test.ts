import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nothingLeft, type Reported } from '../docker/scratch-host.ts';
import { listArchive } from './archive-listing.ts';
import { createSampleImage } from './sample-image.ts';
import { createSealingHost, sealed } from './sealing-host.ts';
import { listTree } from './tree-listing.ts';

const changes = `
cd /workspace
echo after > edit.txt
rm gone.txt && rm -r removed
chmod 700 /workspace
mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho tool\\n' > ~/.local/bin/tool && chmod 751 ~/.local/bin/tool
echo key > ~/.key && chmod 600 ~/.key
ln -s /workspace/edit.txt ~/link
rm ~/.bashrc
mkdir /tmp/deep && echo t > /tmp/deep/t && echo v > /var/tmp/v
mkfifo /tmp/pipe ~/pipe
echo twice > /tmp/hard-1 && ln /tmp/hard-1 ~/hard-2
`;

const all = await createSealingHost();
const places = ['workspace', 'home/agent', 'tmp', 'var/tmp', 'etc'];
let imageId: string;
let session: Reported;
let whole: string;

beforeAll(async () => {
  imageId = await createSampleImage(all.host);
  session = await all.session(changes, imageId);
  expect(session.said).toBe('');
  whole = sealed(await all.seal(session, {}, { whole: true })).whole ?? '';
});

afterAll(async () => {
  await all.engine.remove(session.id);
  expect(await all.host.close()).toEqual(nothingLeft);
});

async function treesOf(containerId: string): Promise<Record<string, Map<string, string>>> {
  const { merged } = await all.engine.layer(containerId);
  return Object.fromEntries(places.map((place) => [place, listTree(join(merged, place))]));
}

const filesOf = async (digest: string) => listArchive((await all.store.fetch(digest))?.file ?? '');

describe('the whole file system of a session', () => {
  test('holds what changed anywhere, and leaves out FIFOs', async () => {
    const { files, deletions } = await filesOf(whole);
    expect([...files.keys()]).toEqual([
      'home/agent/.key',
      'home/agent/.local',
      'home/agent/.local/bin',
      'home/agent/.local/bin/tool',
      'home/agent/hard-2',
      'home/agent/link',
      'tmp/deep',
      'tmp/deep/t',
      'tmp/hard-1',
      'var/tmp/v',
      'workspace',
      'workspace/edit.txt',
    ]);
    expect(deletions).toEqual(['home/agent/.bashrc', 'workspace/gone.txt', 'workspace/removed']);
  });

  test('is there again in a fresh container, with owners and modes, and seals to the same digest', async () => {
    const before = await treesOf(session.id);
    for (const name of ['home/agent', 'tmp']) before[name]?.delete('pipe');
    const fresh = await all.apply(whole, imageId, { whole: true });
    const running = await all.applyRunning(whole, imageId, { whole: true });
    for (const { id, applied } of [fresh, running]) {
      expect(applied).toMatchObject({ kind: 'applied', files: 15 });
      expect(await treesOf(id)).toEqual(before);
      expect(sealed(await all.seal({ ...session, id }, {}, { whole: true })).whole).toBe(whole);
      await all.engine.remove(id);
    }
  });

  test('is the same where the upper directory does not say where to look', async () => {
    expect(sealed(await all.seal(session, {}, { whole: true, compareAll: true })).whole).toBe(whole);
  });

  test('is empty where nothing was done', async () => {
    const idle = await all.session('true', imageId);
    const { digest, whole: none } = sealed(await all.seal(idle, {}, { whole: true }));
    expect((await filesOf(none ?? '')).files.size).toBe(0);
    expect(none).toBe(digest);
    await all.engine.remove(idle.id);
  });

  test('keeps to the caps of the sample, and to what it forbids and restores', async () => {
    const limits = { bytes: 2 ** 20, files: 10, pathBytes: 1_024, depth: 64 };
    const many = await all.seal(session, { limits }, { whole: true });
    expect(many).toMatchObject({ kind: 'invalid', finding: { reason: 'TOO_MANY_FILES' } });
    const restore = ['edit.txt'];
    const { id, applied } = await all.apply(whole, imageId, { whole: true, restore });
    expect(applied).toMatchObject({ restored: ['workspace', 'workspace/edit.txt'] });
    await all.engine.remove(id);
    const refused = await all.seal(session, { forbid: ['edit.txt'], include: ['nothing'] }, { whole: true });
    expect(refused).toMatchObject({
      kind: 'invalid',
      finding: { reason: 'FORBIDDEN_PATH', path: 'workspace/edit.txt' },
    });
  });
});
