import { createHash, randomBytes } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Applied, createApplier } from '../../../services/sandbox-worker/submission/apply.ts';
import { writeManifest } from '../../../services/sandbox-worker/submission/manifest.ts';
import type { Manifests } from '../../../services/sandbox-worker/submission/manifests.ts';
import { encodeDeletions } from '../../../services/sandbox-worker/submission/submission-format.ts';
import { createSubmissionThreads } from '../../../services/sandbox-worker/submission/submission-threads.ts';
import { encodeHeader, padding, type TarHeader } from '../../../services/sandbox-worker/submission/tar-header.ts';
import type { TreeEntry } from '../../../services/sandbox-worker/submission/tree-entry.ts';
import { createSealingHost, openRules } from './sealing-host.ts';

const all = await createSealingHost();
const imageId = `sha256:${'1'.repeat(64)}`;
const manifests: Manifests = {
  of: async () => join(all.host.directory, 'manifest'),
  forget: () => {},
  keepOnly: () => {},
};
const applier = createApplier({ manifests, store: all.store, threads: createSubmissionThreads() });
const directory: TreeEntry = { kind: 'directory', mode: 0o755, uid: 1000, gid: 1000, size: 0, content: '' };
const link: TreeEntry = { ...directory, kind: 'symlink', content: '/etc' };

beforeAll(() => {
  // The image that these submissions are applied to; no container of it is needed.
  writeManifest(join(all.host.directory, 'manifest'), imageId, [
    ['workspace', directory],
    ['workspace/dir', directory],
    ['workspace/dir/file', { ...directory, kind: 'file', content: 'x'.repeat(64) }],
    ['workspace/link', link],
  ]);
});

afterAll(async () => {
  await all.host.close();
});

type Part = Partial<TarHeader> & { name: string; body?: string };

function part({ body = '', ...header }: Part): Buffer {
  const content = Buffer.from(body, 'latin1');
  const whole = { type: '0', mode: 0o644, uid: 1000, gid: 1000, size: content.length, linkName: '', ...header };
  return Buffer.concat([encodeHeader(whole), content, padding(content.length)]);
}

const mark = part({ name: 'assay-submission', uid: 0, gid: 0, body: '1\n' });
const end = Buffer.alloc(1_024);
const deletions = (...paths: string[]): Buffer =>
  part({ name: 'deletions', uid: 0, gid: 0, body: encodeDeletions(paths).toString('latin1') });

async function applyBytes(bytes: Buffer): Promise<{ applied: Applied; upper: string }> {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  const staged = join(all.host.directory, randomBytes(8).toString('hex'));
  writeFileSync(staged, bytes);
  await all.store.put(digest, staged);
  const upper = join(all.host.directory, randomBytes(8).toString('hex'), 'diff');
  mkdirSync(upper, { recursive: true });
  return { applied: await applier.apply(digest, { imageId, upper }, openRules), upper };
}

const archive = (parts: readonly Part[], ...gone: string[]): Buffer =>
  Buffer.concat([mark, ...parts.map(part), deletions(...gone), end]);
const linkTo = (name: string, linkName: string): Part => ({ name, type: '2', mode: 0o777, linkName });

describe('a submission that somebody forged is refused', () => {
  test.each<[string, Part[], string]>([
    ['leaves the working directory', [{ name: 'files/../../etc/x', body: 'x' }], 'MALFORMED'],
    ['has an absolute path', [{ name: 'files//etc/x', body: 'x' }], 'MALFORMED'],
    ['has a path of its own', [{ name: 'etc/x', body: 'x' }], 'MALFORMED'],
    ['writes through a link of its own', [linkTo('files/s', '/etc'), { name: 'files/s/x', body: 'x' }], 'MALFORMED'],
    [
      'writes through a link in place of a directory',
      [linkTo('files/dir', '/etc'), { name: 'files/dir/x' }],
      'MALFORMED',
    ],
    ['writes through a link of the image', [{ name: 'files/link/x', body: 'x' }], 'MALFORMED'],
    ['writes below a file', [{ name: 'files/dir/file/x', body: 'x' }], 'MALFORMED'],
    ['writes into nowhere', [{ name: 'files/nowhere/x', body: 'x' }], 'MALFORMED'],
    ['comes twice', [{ name: 'files/a' }, { name: 'files/a' }], 'MALFORMED'],
    ['is out of order', [{ name: 'files/b' }, { name: 'files/a' }], 'MALFORMED'],
    ['has a hard link', [{ name: 'files/h', type: '1', linkName: '/etc/shadow' }], 'SPECIAL_FILE'],
    ['has a device', [{ name: 'files/d', type: '3' }], 'SPECIAL_FILE'],
    ['has a FIFO', [{ name: 'files/f', type: '6' }], 'SPECIAL_FILE'],
    ['has a setuid file', [{ name: 'files/s', mode: 0o4755 }], 'SET_ID'],
    ['has a setgid directory', [{ name: 'files/s', type: '5', mode: 0o2755 }], 'MALFORMED'],
    ['has a name for root alone', [{ name: 'files/.', type: '5' }], 'MALFORMED'],
  ])('when it %s', async (_, parts, reason) => {
    const { applied, upper } = await applyBytes(archive(parts));
    expect(applied).toMatchObject({ kind: 'invalid', finding: { reason } });
    for (const name of ['x', '../x']) expect(existsSync(join(upper, name))).toBe(false);
    expect(existsSync('/etc/x')).toBe(false);
  });

  test.each<[string, Buffer]>([
    ['deletes what the image does not have', archive([], 'unknown')],
    ['deletes outside', archive([], '../etc')],
    ['deletes what it brings', archive([{ name: 'files/dir/file', body: 'x' }], 'dir/file')],
    ['deletes a directory that it writes into', archive([{ name: 'files/dir/x', body: 'x' }], 'dir')],
    ['deletes inside of what it deleted', archive([], 'dir', 'dir/file')],
    ['has no mark', Buffer.concat([deletions(), end])],
    ['has no deletions', Buffer.concat([mark, end])],
    ['goes on after its deletions', Buffer.concat([mark, deletions(), part({ name: 'files/a' }), end])],
    ['goes on after its end', Buffer.concat([archive([]), Buffer.alloc(512)])],
    ['is cut off', archive([{ name: 'files/a', body: 'x'.repeat(2_000) }]).subarray(0, 2_000)],
    ['is no tar', Buffer.from('PK\x03\x04'.repeat(1_000))],
    ['is empty', Buffer.alloc(0)],
    ['has something in its padding', spoilt(archive([{ name: 'files/a', body: 'x' }]), 1_024 + 512 + 100)],
    ['has a time', retimed()],
  ])('when it %s', async (_, bytes) => {
    const { applied } = await applyBytes(bytes);
    expect(applied).toMatchObject({ kind: 'invalid', finding: { reason: 'MALFORMED' } });
  });
});

function spoilt(bytes: Buffer, at: number): Buffer {
  bytes[at] = 1;
  return bytes;
}

/** A valid header in another form: with a time, and the checksum right. */
function retimed(): Buffer {
  const bytes = archive([{ name: 'files/a' }]);
  const header = bytes.subarray(1_024, 1_536);
  header.write('1', 146, 'latin1');
  const sum = Number.parseInt(header.toString('latin1', 148, 154), 8) + 1;
  header.write(sum.toString(8).padStart(6, '0'), 148, 'latin1');
  return bytes;
}

test('one in good order is applied: owners, modes, links, whiteouts, and nothing else', async () => {
  const parts = [
    { name: 'files/dir/new', body: 'new', mode: 0o600, uid: 1234, gid: 5 },
    linkTo('files/escape', '../../../../etc/passwd'),
  ];
  const { applied, upper } = await applyBytes(archive(parts, 'dir/file'));
  expect(applied).toEqual({ kind: 'applied', files: 3, bytes: 3, restored: [] });
  expect(lstatSync(join(upper, 'workspace/dir/new'))).toMatchObject({ uid: 1234, gid: 5, size: 3 });
  expect(lstatSync(join(upper, 'workspace/escape')).isSymbolicLink()).toBe(true);
  const whiteout = lstatSync(join(upper, 'workspace/dir/file'));
  expect([whiteout.isCharacterDevice(), whiteout.rdev]).toEqual([true, 0]);
  expect(readdirSync(join(upper, '..'))).toEqual(['diff']);
});

test('a stored file that does not have its digest is our failure, not the agent’s', async () => {
  const staged = join(all.host.directory, 'damaged');
  writeFileSync(staged, archive([]));
  const digest = `sha256:${'2'.repeat(64)}`;
  await all.store.put(digest, staged);
  const upper = join(all.host.directory, 'damaged-layer', 'diff');
  mkdirSync(upper, { recursive: true });
  const applying = applier.apply(digest, { imageId, upper }, openRules);
  await expect(applying).rejects.toMatchObject({ reason: 'INTERNAL', message: expect.stringContaining('digest') });
  const missing = applier.apply(`sha256:${'3'.repeat(64)}`, { imageId, upper }, openRules);
  await expect(missing).rejects.toMatchObject({ reason: 'INTERNAL' });
  // The thread that failed was ended; the next has one of its own.
  expect((await applyBytes(archive([]))).applied).toMatchObject({ kind: 'applied', files: 0 });
});
