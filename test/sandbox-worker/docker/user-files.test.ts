import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { removeFilesOf } from '../../../services/sandbox-worker/docker/user-files.ts';
import { runDirectory } from '../../run.ts';

const uid = 64_990;
let root: string;
beforeEach(() => {
  root = mkdtempSync(join(runDirectory(), 'files-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function fileOf(owner: number, name: string): void {
  writeFileSync(join(root, name), '');
  chownSync(join(root, name), owner, owner);
}

// Files of several users, and mounts, take root.
describe.skipIf(process.getuid?.() !== 0)('removing the files of a user', () => {
  test('leaves those of others, and a directory of the user that holds one', async () => {
    mkdirSync(join(root, 'theirs'));
    chownSync(join(root, 'theirs'), uid, uid);
    fileOf(uid, 'gone');
    fileOf(uid, 'theirs/gone');
    fileOf(1000, 'theirs/kept');
    await removeFilesOf(uid, root);
    expect(readdirSync(root, { recursive: true }).sort()).toEqual(['theirs', 'theirs/kept']);
  });

  test('fails where they cannot be removed', async () => {
    fileOf(uid, 'file');
    execFileSync('mount', ['--bind', root, root]);
    execFileSync('mount', ['-o', 'remount,bind,ro', root]);
    try {
      await expect(removeFilesOf(uid, root)).rejects.toThrow(`the files of user ${uid}, ended with 1`);
    } finally {
      execFileSync('umount', [root]);
    }
  });

  test('ends with the signal, and with an error of its own when it takes too long', async () => {
    // So many files that it cannot be over by then; none of them is the user's.
    const many = '/usr';
    const late = () => new Error('too slow');
    const leaving = new AbortController();
    const left = removeFilesOf(uid, many, { longestMs: 60_000, late, signal: leaving.signal });
    leaving.abort(new Error('nobody needs it'));
    await expect(left).rejects.toThrow('nobody needs it');
    const { signal: never } = new AbortController();
    await expect(removeFilesOf(uid, many, { longestMs: 1, late, signal: never })).rejects.toThrow('too slow');
  });
});
