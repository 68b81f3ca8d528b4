import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SealedSubmission } from '../../../services/sandbox-worker/submission/seal.ts';
import { nothingLeft, type Reported } from '../docker/scratch-host.ts';
import { listArchive } from './archive-listing.ts';
import { createSampleImage } from './sample-image.ts';
import { createSealingHost, sealed } from './sealing-host.ts';
import { listTree } from './tree-listing.ts';

const changes = `
cd /workspace
echo added > added.txt
echo after > edit.txt
echo bbbb > same-size.txt
touch touched.txt
chmod 600 owner-only.txt
rm gone.txt
rm dir/a && echo new > dir/new
rm -r remake && mkdir remake && echo z > remake/z
mv rename-me renamed
rm becomes-dir && mkdir becomes-dir && echo in > becomes-dir/in
rm -r becomes-file && echo file > becomes-file
rm -r becomes-link && ln -s /etc/passwd becomes-link
rm -r removed
mkdir -p new/empty/dirs && chmod 700 new/empty
ln -s ../../../etc/shadow outward
ln -sf edit.txt link
mv moved-link moved-link-2
echo n > "$(printf 'new\\nline')"
echo b > "$(printf 'bytes\\377\\376')"
echo q > "quote'\\" \\\\ \\$ *"
echo d > -dash
mkdir "$(printf 'odd\\001dir')" && echo o > "$(printf 'odd\\001dir')/f"
echo w > .wh.gone.txt
mkdir -p $(printf 'long/%0100d/%0100d' 1 2) && echo l > $(printf 'long/%0100d/%0100d/%0200d' 1 2 3)
ln -s $(printf '%0300d' 4) long/link
truncate -s 3000000 sparse
echo twice > hard-1 && ln hard-1 hard-2
chmod 755 added.txt
echo outside > /tmp/outside
`;

const all = await createSealingHost();
let imageId: string;
let session: Reported;
let submission: SealedSubmission;
let archive: Awaited<ReturnType<typeof listArchive>>;

beforeAll(async () => {
  imageId = await createSampleImage(all.host);
  session = await all.session(changes, imageId);
  expect(session.said).toBe('');
  submission = sealed(await all.seal(session));
  archive = await listArchive((await all.store.fetch(submission.digest))?.file ?? '');
});

afterAll(async () => {
  await all.engine.remove(session.id);
  expect(await all.host.close()).toEqual(nothingLeft);
});

async function workspaceOf(containerId: string): Promise<Map<string, string>> {
  return listTree(join((await all.engine.layer(containerId)).merged, 'workspace'));
}

describe('a submission', () => {
  test('applied to a fresh container gives the same files, and sealed from there the same digest', async () => {
    const { id, applied } = await all.apply(submission.digest, imageId);
    expect(applied).toEqual({ kind: 'applied', files: submission.files, bytes: submission.bytes, restored: [] });
    expect(await workspaceOf(id)).toEqual(await workspaceOf(session.id));
    const again = sealed(await all.seal({ ...session, id }));
    expect(again.digest).toBe(submission.digest);
    await all.engine.remove(id);
  });

  test('applied to a container that runs already gives the same', async () => {
    const { id, applied } = await all.applyRunning(submission.digest, imageId);
    expect(applied).toEqual({ kind: 'applied', files: submission.files, bytes: submission.bytes, restored: [] });
    expect(await workspaceOf(id)).toEqual(await workspaceOf(session.id));
    expect(sealed(await all.seal({ ...session, id })).digest).toBe(submission.digest);
    await all.engine.remove(id);
  });

  test.each([false, true])('applied through the engine gives the same, running already: %s', async (running) => {
    const { id, applied } = await all.applyArchived(submission.digest, imageId, running);
    expect(applied).toEqual({ kind: 'applied', files: submission.files, bytes: submission.bytes, restored: [] });
    expect(await workspaceOf(id)).toEqual(await workspaceOf(session.id));
    expect(sealed(await all.seal({ ...session, id })).digest).toBe(submission.digest);
    await all.engine.remove(id);
  });

  test('sealed through the engine is the same', async () => {
    expect(sealed(await all.seal(session, {}, { archived: true })).digest).toBe(submission.digest);
  });

  test('is the same, sealed twice, and whether or not the upper directory says where to look', async () => {
    expect(sealed(await all.seal(session)).digest).toBe(submission.digest);
    expect(sealed(await all.seal(session, {}, { compareAll: true })).digest).toBe(submission.digest);
  });

  test('holds what was added or changed, and not what was only touched', () => {
    expect(archive.files.get('edit.txt')?.toString()).toBe('after\n');
    expect(archive.files.get('same-size.txt')?.toString()).toBe('bbbb\n');
    expect([...archive.files.keys()]).toEqual(
      expect.arrayContaining(['added.txt', 'owner-only.txt', 'dir/new', 'new', 'new/empty', 'new/empty/dirs', '-dash']),
    );
    for (const unchanged of ['touched.txt', 'keep.txt', 'dir', 'dir/b', 'remake', 'empty']) {
      expect(archive.files.has(unchanged)).toBe(false);
    }
  });

  test('names what was deleted: once for a whole directory, and inside of one that was made again', () => {
    expect(archive.deletions).toEqual([
      'dir/a',
      'gone.txt',
      'moved-link',
      'remake/x',
      'remake/y',
      'removed',
      'rename-me',
    ]);
  });

  test('keeps links as links, wherever they point', () => {
    expect(archive.files.get('outward')?.toString()).toBe('-> ../../../etc/shadow');
    expect(archive.files.get('becomes-link')?.toString()).toBe('-> /etc/passwd');
    expect(archive.files.get('long/link')?.length).toBe(303);
  });

  test('keeps every byte of a name', () => {
    const names = ['new\nline', 'bytes\xff\xfe', 'quote\'" \\ $ *', 'odd\x01dir/f', '.wh.gone.txt'];
    for (const name of names) expect([...archive.files.keys()]).toContain(name);
  });

  test('reads holes as zeros, and two names of one file as two files', () => {
    expect(archive.files.get('sparse')?.equals(Buffer.alloc(3_000_000))).toBe(true);
    expect(archive.files.get('hard-1')).toEqual(archive.files.get('hard-2'));
  });

  test('has only what the patterns ask for, with the directories on the way', async () => {
    const include = ['new/empty/**', 'dir/**', '*.txt'];
    const some = sealed(await all.seal(session, { include, exclude: ['edit.txt', 'dir/a'] }));
    const found = await listArchive((await all.store.fetch(some.digest))?.file ?? '');
    expect([...found.files.keys()]).toEqual([
      '.wh.gone.txt',
      'added.txt',
      'dir/new',
      'new',
      'new/empty',
      'new/empty/dirs',
      'owner-only.txt',
      'same-size.txt',
    ]);
    expect(found.deletions).toEqual(['gone.txt']);
  });
});

test.each([
  ['gone.txt', 'gone.txt'],
  ['removed/all/**', 'removed'],
  ['becomes-link/inner', 'becomes-link'],
  ['becomes-file/**', 'becomes-file'],
  ['dir/a', 'dir/a'],
])('a forbidden %s is touched by whatever takes it away, here %s', async (pattern, path) => {
  const result = await all.seal(session, { forbid: [pattern] });
  expect(result).toMatchObject({ kind: 'invalid', finding: { reason: 'FORBIDDEN_PATH', path } });
});

describe('on applying', () => {
  test('restored paths are what the image has, whatever was done to them or above them', async () => {
    const script = `cd /workspace && echo bad > tests/test_a.py && rm tests/test_b.py && echo c > tests/conftest.py
      mv tests real && ln -s real tests && rm -r removed dir && echo c > conftest.py`;
    const hostile = await all.session(script, imageId);
    const { digest } = sealed(await all.seal(hostile));
    const restore = ['tests/**', 'conftest.py', 'dir/sub/c'];
    const { id, applied } = await all.apply(digest, imageId, { restore });
    expect(applied).toMatchObject({
      kind: 'applied',
      restored: ['conftest.py', 'real/conftest.py', 'tests', 'dir/sub/c'],
    });
    const found = await workspaceOf(id);
    const pristine = await all.engine.run(all.host.spec(imageId));
    const expected = await workspaceOf(pristine.id);
    for (const path of [
      'tests',
      'tests/test_a.py',
      'tests/test_b.py',
      'tests/data/one',
      'dir',
      'dir/sub',
      'dir/sub/c',
    ]) {
      expect([path, found.get(path)]).toEqual([path, expected.get(path)]);
    }
    for (const path of ['tests/conftest.py', 'conftest.py', 'real/conftest.py', 'dir/a', 'dir/b', 'removed']) {
      expect([path, found.has(path)]).toEqual([path, false]);
    }
    for (const container of [hostile.id, id, pristine.id]) await all.engine.remove(container);
  });

  test('the rules of the moment count, not those of the sealing', async () => {
    const forbid = ['dir/sub', 'renamed/**'];
    const target = all.apply(submission.digest, imageId, { forbid });
    const { id, applied } = await target;
    expect(applied).toMatchObject({ kind: 'invalid', finding: { reason: 'FORBIDDEN_PATH', path: 'renamed/deep' } });
    await all.engine.remove(id);
  });
});
