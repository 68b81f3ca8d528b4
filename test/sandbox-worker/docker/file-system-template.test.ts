import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createFileSystemTemplates } from '../../../services/sandbox-worker/docker/file-system-template.ts';
import { runDirectory } from '../../run.ts';

test('sessions of any number of sizes leave few templates behind', async () => {
  const directory = mkdtempSync(join(runDirectory(), 'templates-'));
  const templates = createFileSystemTemplates(join(directory, 'kept'));
  const sizes = Array.from({ length: 24 }, (_, index) => 16 * 2 ** 20 + index * 4096);
  for (const [index, size] of [...sizes, sizes[0] as number].entries()) {
    const file = join(directory, String(index));
    await templates.copyTo(file, size);
    expect(statSync(file).size).toBe(size);
  }
  expect(readdirSync(join(directory, 'kept'))).toHaveLength(16);
  rmSync(directory, { recursive: true });
});
