import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CopyOptions, copyLayer } from '../../../services/sandbox-worker/docker/layer-copy.ts';
import { runDirectory } from '../../run.ts';

let root: string;
let from: string;
let to: string;
beforeEach(() => {
  root = mkdtempSync(join(runDirectory(), 'copy-'));
  from = join(root, 'from');
  to = join(root, 'to');
  for (const directory of [from, to]) mkdirSync(directory);
});
afterEach(() => void execFileSync('rm', ['-rf', root]));

const copy = (options: Partial<CopyOptions> = {}) =>
  copyLayer(from, to, { longestMs: 60_000, refused: (problem) => new Error(problem), ...options });

/** More files than are copied in a moment. */
function manyFiles(): void {
  execFileSync('sh', ['-c', 'seq 20000 | xargs touch'], { cwd: from });
}

test('paths that are too long to be copied are told as such, at the first of them', async () => {
  // By steps: the whole path is longer than any call takes.
  const deep = 'i=0; while [ $i -lt 25 ]; do mkdir $0; cd -P $0; i=$((i+1)); done; seq 2000 | xargs touch';
  execFileSync('bash', ['-c', deep, 'd'.repeat(200)], { cwd: from });
  await expect(copy()).rejects.toThrow('PATH_TOO_LONG');
});

test('a copy that takes too long is given up, and told as such', async () => {
  manyFiles();
  await expect(copy({ longestMs: 1 })).rejects.toThrow('TOO_SLOW');
});

test('a copy that nobody needs any more is given up with the reason', async () => {
  manyFiles();
  const leaving = new AbortController();
  const copied = copy({ signal: leaving.signal });
  leaving.abort(new Error('nobody needs it'));
  await expect(copied).rejects.toThrow('nobody needs it');
  await expect(copy({ signal: leaving.signal })).rejects.toThrow('nobody needs it');
});

test('a file that cannot be copied and is named like a full disk is not one', async () => {
  writeFileSync(join(from, 'x: No space left on device'), 'text');
  // A directory in its place cannot be replaced by a file.
  mkdirSync(join(to, 'x: No space left on device'));
  await expect(copy()).rejects.toThrow('copying the files of a layer ended with 1');
});

// To mount takes root.
test.skipIf(process.getuid?.() !== 0)('a full disk is told as such', async () => {
  writeFileSync(join(from, 'file'), Buffer.alloc(2_097_152, 1));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', to]);
  try {
    await expect(copy()).rejects.toThrow('NO_SPACE');
  } finally {
    execFileSync('umount', [to]);
  }
});
