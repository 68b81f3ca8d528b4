import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createHostsFile } from '../../../services/sandbox-worker/network/egress/hosts-file.ts';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'assay-hosts-'));
  path = join(directory, 'hosts');
});
afterEach(() => rmSync(directory, { recursive: true }));

test('names have their addresses in the order of the file', () => {
  writeFileSync(path, '# 10.0.0.9 a.test\n10.0.0.1 a.test B.test. a.test\n\nno-address a.test\n::1 b.test # c.test\n');
  const file = createHostsFile(path);
  expect(file.addressesOf('a.test')).toEqual(['10.0.0.1']);
  expect(file.addressesOf('b.test')).toEqual(['10.0.0.1', '::1']);
  expect(file.addressesOf('c.test')).toEqual([]);
});

test('the file is looked at once a second, and one that changed or went away is noticed then', () => {
  let ms = 0;
  const file = createHostsFile(path, () => ms);
  expect(file.addressesOf('a.test')).toEqual([]);
  writeFileSync(path, '10.0.0.1 a.test\n');
  ms = 999;
  expect(file.addressesOf('a.test')).toEqual([]);
  ms = 1_000;
  expect(file.addressesOf('a.test')).toEqual(['10.0.0.1']);
  writeFileSync(path, '10.0.0.2 a.test 10.0.0.2\n');
  expect(file.addressesOf('a.test')).toEqual(['10.0.0.1']);
  ms = 2_000;
  expect(file.addressesOf('a.test')).toEqual(['10.0.0.2']);
  rmSync(path);
  ms = 3_000;
  expect(file.addressesOf('a.test')).toEqual([]);
});
