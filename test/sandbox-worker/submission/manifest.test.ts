import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readManifest } from '../../../services/sandbox-worker/submission/manifest.ts';
import { createManifests } from '../../../services/sandbox-worker/submission/manifests.ts';
import { baseImage, nothingLeft, socketPath } from '../docker/scratch-host.ts';
import { createSealingHost } from './sealing-host.ts';
import { listTree } from './tree-listing.ts';

const all = await createSealingHost();

afterAll(async () => {
  expect(await all.host.close()).toEqual(nothingLeft);
});

test('a manifest says of every file what a container of the image has, and is made once', async () => {
  const imageId = (await all.engine.image(baseImage())).id;
  const manifests = createManifests({ directory: join(all.host.directory, 'manifests'), socketPath });
  const began = performance.now();
  const [file, same] = await Promise.all([manifests.of(imageId), manifests.of(imageId)]);
  console.log(`the manifest of the base image took ${(performance.now() - began).toFixed(0)} ms`);
  expect(same).toBe(file);
  const { id } = await all.engine.run(all.host.spec(imageId));
  const { merged } = await all.engine.layer(id);
  for (const directory of ['etc', 'usr/bin', 'usr/lib/ssl']) {
    const said = readManifest(file, imageId, directory).flatMap(([path, { kind, mode, uid, gid, content }]) => {
      if (!path.startsWith(`${directory}/`)) return [];
      const shown = `${kind === 'symlink' ? `link ${content}` : `${kind} ${(mode & 0o777).toString(8)}`} ${uid}:${gid}`;
      return [[path.slice(directory.length + 1), kind === 'file' ? `${shown} ${content}` : shown] as const];
    });
    expect(said.length).toBeGreaterThan(0);
    expect(new Map(said)).toEqual(listTree(join(merged, directory)));
  }
  await all.engine.remove(id);
});

test('manifests of images that are gone are forgotten; a damaged one is refused; an unknown image has none', async () => {
  const directory = join(all.host.directory, 'other-manifests');
  const manifests = createManifests({ directory, socketPath });
  const [kept, gone] = ['a', 'b'].map((digit) => digit.repeat(64)) as [string, string];
  for (const name of [kept, gone]) writeFileSync(join(directory, name), 'cut');
  manifests.keepOnly(new Set([`sha256:${kept}`]));
  expect(readdirSync(directory)).toEqual([kept]);
  expect(() => readManifest(join(directory, kept), `sha256:${kept}`, 'workspace')).toThrow(/made again/);
  await expect(manifests.of(`sha256:${'c'.repeat(64)}`)).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
  await expect(manifests.of('../etc')).rejects.toMatchObject({ reason: 'INTERNAL' });
});
