import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { grader } from '../../../services/sandbox-worker/docker/container-users.ts';
import { copyForFork } from '../../../services/sandbox-worker/docker/fork-copy.ts';
import { runDirectory } from '../../run.ts';

let root: string;
let from: string;
let to: string;
beforeEach(() => {
  root = mkdtempSync(join(runDirectory(), 'fork-'));
  from = join(root, 'from');
  to = join(root, 'to');
  for (const directory of [from, to]) mkdirSync(directory);
  for (const name of ['kept', 'test']) writeFileSync(join(from, name), name);
});
afterEach(() => rmSync(root, { recursive: true }));
const { signal } = new AbortController();

// Files of several users take root.
describe.skipIf(process.getuid?.() !== 0)('the copy for a fork', () => {
  test("leaves the grader's files out", async () => {
    chownSync(join(from, 'test'), grader.uid, grader.uid);
    await copyForFork(from, to, signal);
    expect(readdirSync(to)).toEqual(['kept']);
  });

  test('has one deadline for copying and for removing the files of tests', async () => {
    const clock = [0, 120_000];
    const copied = copyForFork(from, to, signal, () => clock.shift() ?? expect.unreachable());
    await expect(copied).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED', message: expect.stringContaining('120 s') });
    expect(readdirSync(to)).toEqual(['kept', 'test']);
  });
});
