import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { baseImage, nothingLeft } from '../docker/scratch-host.ts';
import { listArchive } from './archive-listing.ts';
import { createSealingHost, sealed } from './sealing-host.ts';

const all = await createSealingHost();
let imageId: string;

beforeAll(async () => {
  imageId = (await all.engine.image(baseImage())).id;
  await all.manifests.of(imageId);
});

afterAll(async () => {
  expect(await all.host.close()).toEqual(nothingLeft);
});

test('a writer in the background cannot tear what is sealed: all files are of one moment', async () => {
  const script = `cd /workspace && head -c 20000000 /dev/urandom > m.bin && : > a && : > z
    (i=0; while :; do i=$((i+1)); echo $i >> a; echo $i >> z; done) >/dev/null 2>&1 &`;
  const session = await all.session(script, imageId);
  const { merged } = await all.engine.layer(session.id);
  const written = () => statSync(join(merged, 'workspace/a')).size;
  for (let round = 0; round < 3; round += 1) {
    const { digest } = sealed(await all.seal(session));
    const { files } = await listArchive((await all.store.fetch(digest))?.file ?? '');
    const [first, last] = ['a', 'z'].map((name) => (files.get(name) as Buffer).toString().split('\n').length);
    // One of them may be a line ahead; without the standstill the copy of m.bin lies between the two.
    expect((first as number) - (last as number)).toBeOneOf([0, 1]);
    // It goes on afterwards.
    const before = written();
    await expect.poll(written).toBeGreaterThan(before);
  }
  await all.engine.remove(session.id);
});

test.each([1, 100])('a session with %i MB to submit is held up for the pause and the copy only', async (megabytes) => {
  const script = `cd /workspace && head -c ${megabytes}000000 /dev/urandom > big && sync big`;
  const session = await all.session(script, imageId);
  const figures: string[] = [];
  for (let round = 0; round < 5; round += 1) {
    const { stillMs, copyMs, bytes } = sealed(await all.seal(session));
    expect(bytes).toBe(megabytes * 1_000_000);
    expect(copyMs).toBeLessThanOrEqual(stillMs);
    figures.push(`${stillMs.toFixed(0)} (copy ${copyMs.toFixed(0)})`);
  }
  console.log(`held up for ${megabytes} MB, ms: ${figures.join(', ')}`);
  await all.engine.remove(session.id);
});
