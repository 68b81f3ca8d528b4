import {
  chownSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import { canShowLayers, showLayer } from '../../../services/sandbox-worker/docker/layer-view.ts';
import { readMounts } from '../../../services/sandbox-worker/docker/mount-table.ts';
import { runProgram } from '../../../services/sandbox-worker/program/program.ts';
import { runDirectory } from '../../run.ts';

const idmount = join(dirname(inject('setup').guestPath), 'idmount');
const ids = { agent: 1_900_000_010, grader: 1_900_000_011 };
let directory: string;
let layer: string;

beforeEach(() => {
  directory = mkdtempSync(join(runDirectory(), 'layer-view-'));
  // As long as those of the engine.
  layer = join(directory, 'a'.repeat(64));
  for (const name of ['l', 'upper-image/diff', 'lower-image/diff']) {
    mkdirSync(join(directory, name), { recursive: true });
  }
  for (const name of ['diff', 'work', 'merged']) mkdirSync(join(layer, name), { recursive: true });
  writeFileSync(join(directory, 'lower-image/diff', 'file'), 'of the image');
  chownSync(join(directory, 'lower-image/diff', 'file'), 1000, 1000);
  chownSync(join(layer, 'diff'), 1000, 1000);
  writeFileSync(join(layer, 'lower'), 'upper-image/diff:lower-image/diff');
});
afterEach(() => {
  expect(mountsBelow()).toEqual([]);
  rmSync(directory, { recursive: true });
});

function mountsBelow(): string[] {
  return readMounts().flatMap(({ mountPoint }) => (mountPoint.startsWith(directory) ? [mountPoint] : []));
}

/** As the engine does, from what the file says. */
async function mountOverlay(): Promise<string> {
  const merged = join(layer, 'merged');
  const lower = readFileSync(join(layer, 'lower'), 'utf8').split(':');
  const options = `lowerdir=${lower.map((name) => join(directory, name)).join(':')},upperdir=${layer}/diff,workdir=${layer}/work`;
  await runProgram('mount', ['-t', 'overlay', 'overlay', '-o', options, '--', merged]);
  return merged;
}

test('an overlay that is mounted meanwhile keeps the other owners, and the directories below keep theirs', async () => {
  const view = await showLayer(idmount, ids, layer);
  const merged = await mountOverlay();
  await view.close();
  expect(mountsBelow()).toEqual([merged]);
  expect(statSync(join(merged, 'file')).uid).toBe(ids.agent);
  chownSync(join(merged, 'file'), ids.grader, ids.grader);
  expect(statSync(join(layer, 'diff', 'file')).uid).toBe(64_990);
  expect(statSync(join(directory, 'lower-image/diff', 'file')).uid).toBe(1000);
  await runProgram('umount', ['--', merged]);
});

test('a view that is closed leaves the layer as it was, also when nothing was mounted', async () => {
  const before = readdirSync(layer);
  const view = await showLayer(idmount, ids, layer);
  expect(statSync(join(layer, 'diff')).uid).toBe(ids.agent);
  await view.close();
  expect(readdirSync(layer)).toEqual(before);
  expect(readFileSync(join(layer, 'lower'), 'utf8')).toBe('upper-image/diff:lower-image/diff');
  expect(statSync(join(layer, 'diff')).uid).toBe(1000);
});

test('a view that somebody looks into is closed all the same, once the container has its overlay', async () => {
  const view = await showLayer(idmount, ids, layer);
  const merged = await mountOverlay();
  const looking = openSync(join(layer, 'diff'), 'r');
  await view.close();
  closeSync(looking);
  expect(mountsBelow()).toEqual([merged]);
  await runProgram('umount', ['--', merged]);
});

test('as many layers as an engine allows fit into the options of a mount', async () => {
  writeFileSync(join(layer, 'lower'), Array.from({ length: 128 }, () => 'lower-image/diff').join(':'));
  const view = await showLayer(idmount, ids, layer);
  // The engine's own names have 28 bytes each.
  const names = readFileSync(join(layer, 'lower'), 'utf8');
  await view.close();
  expect(names.split(':').every((name) => name.length <= 28)).toBe(true);
  expect(readdirSync(join(directory, 'l'))).toEqual([]);
});

test('nothing of the image can be removed through a view', async () => {
  const view = await showLayer(idmount, ids, layer);
  expect(() => unlinkSync(join(layer, 'assay-lower', '1', 'file'))).toThrow(/EROFS/);
  await view.close();
  expect(readFileSync(join(directory, 'lower-image/diff', 'file'), 'utf8')).toBe('of the image');
});

test('a full disk is no reason to have sessions share a user', async () => {
  expect(await canShowLayers(idmount, directory)).toBe(true);
  const full = join(directory, 'full');
  mkdirSync(full);
  await runProgram('mount', ['-t', 'tmpfs', '-o', 'nr_inodes=2', 'none', full]);
  try {
    expect(await canShowLayers(idmount, full)).toBe(true);
  } finally {
    await runProgram('umount', ['--', full]);
  }
});

test('a layer that is missing one of its images is refused in words, and left as it was', async () => {
  writeFileSync(join(layer, 'lower'), 'upper-image/diff:gone/diff');
  await expect(showLayer(idmount, ids, layer)).rejects.toThrow(/gone.*No such file/);
  expect(readFileSync(join(layer, 'lower'), 'utf8')).toBe('upper-image/diff:gone/diff');
  expect(readdirSync(join(directory, 'l'))).toEqual([]);
});
