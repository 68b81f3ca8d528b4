import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSampleImage } from './sample-image.ts';
import { createSealingHost, openRules, sealed } from './sealing-host.ts';

const all = await createSealingHost();
const imageId = await createSampleImage(all.host);
/** A file system of this host on which no submission fits. */
const full = join(all.host.directory, 'full');
let digest: string;

beforeAll(async () => {
  mkdirSync(full);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'assay-test', full]);
  const session = await all.session('head -c 1000000 /dev/zero > /workspace/large', imageId);
  ({ digest } = sealed(await all.seal(session)));
});
afterAll(async () => {
  execFileSync('umount', [full]);
  await all.host.close();
});

describe('a disk that is full while a submission is applied', () => {
  test('is ours where it is the one that the worker stages on, and nothing stays there', async () => {
    const { id } = await all.engine.create(all.host.spec(imageId));
    const place = { imageId, archived: all.engine.archived(id), staged: join(full, 'staged.tar') };
    await expect(all.applier.apply(digest, place, openRules)).rejects.toMatchObject({
      reason: 'INTERNAL',
      message: expect.stringContaining("the worker's own disk is full or broken"),
    });
    expect(readdirSync(full)).toEqual([]);
  });

  test.each([
    [
      true,
      expect.objectContaining({ kind: 'invalid', finding: expect.objectContaining({ reason: 'TOO_MANY_BYTES' }) }),
    ],
    [false, expect.objectContaining({ reason: 'INTERNAL' })],
  ])('is the submission’s where the container’s is limited (%s), else ours', async (limited, outcome) => {
    const upper = join(mkdtempSync(join(full, 'layer-')), 'diff');
    mkdirSync(upper);
    const applied = all.applier.apply(digest, { imageId, upper }, openRules, { opened: false, limited });
    expect(await applied.catch((error: unknown) => error)).toEqual(outcome);
  });
});
