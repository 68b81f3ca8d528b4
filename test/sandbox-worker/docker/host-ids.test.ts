import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { containerOptions, guestCommand } from '../../../services/sandbox-worker/docker/container-options.ts';
import type { ContainerSpec, Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { createHostIdRange } from '../../../services/sandbox-worker/docker/host-ids.ts';
import { readMounts } from '../../../services/sandbox-worker/docker/mount-table.ts';
import { writeNameFiles } from '../../../services/sandbox-worker/docker/name-files.ts';
import { baseImage, createScratchHost, nothingLeft } from './scratch-host.ts';

const { guestPath } = inject('setup');
const host = createScratchHost();
let engine: Engine;
let imageId: string;

beforeAll(async () => {
  engine = await host.engine({ idmountPath: join(dirname(guestPath), 'idmount') });
  imageId = (await engine.image(baseImage())).id;
});
afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

function guestSpec(change: Partial<ContainerSpec> = {}): ContainerSpec {
  const spec = host.spec(imageId, change);
  writeNameFiles(spec.slotDirectory);
  copyFileSync(guestPath, join(spec.slotDirectory, 'guest'));
  return spec;
}

test('whether containers can have ids of their own is tried where the engine has its layers', async () => {
  // No file system in memory of this kind shows its files with other ids, and the worker's directory may be on any.
  const elsewhere = mkdtempSync(join(host.directory, 'elsewhere-'));
  execFileSync('mount', ['-t', 'ramfs', 'none', elsewhere]);
  try {
    const idmountPath = join(dirname(guestPath), 'idmount');
    const other = await host.engine({ idmountPath, templateDirectory: elsewhere });
    expect(other.capabilities).toContain('host_ids');
    const { DockerRootDir } = await host.docker.info();
    expect(readdirSync(join(DockerRootDir, 'tmp')).filter((name) => name.endsWith(`-${process.pid}`))).toEqual([]);
  } finally {
    execFileSync('umount', [elsewhere]);
  }
});

test('ids are not given in order, nor twice', () => {
  const next = createHostIdRange();
  const given = Array.from({ length: 2_000 }, () => next().agent);
  expect(new Set(given).size).toBe(given.length);
  const steps = given.slice(1).map((id, index) => id - (given[index] ?? 0));
  expect(new Set(steps).size).toBeGreaterThan(1_900);
});

test('a container is started to the end only when its guest has its ids', async () => {
  const half = await host.docker.createContainer(
    containerOptions(guestSpec(), guestCommand, {
      storageOpt: undefined,
      raiseLimits: false,
      ids: createHostIdRange()(),
    }),
  );
  expect(await engine.isStarted(half.id)).toBe(false);
  await half.start();
  expect((await half.inspect()).State.Running).toBe(true);
  expect(await engine.isStarted(half.id)).toBe(false);
  const { id } = await engine.run(guestSpec());
  expect(await engine.isStarted(id)).toBe(true);
  for (const each of [half.id, id]) await engine.remove(each);
  expect(await engine.isStarted(id)).toBe(false);
});

test('a file of a user that the container does not have keeps its owner', async () => {
  const fill = async (upper: string): Promise<void> => {
    writeFileSync(join(upper, 'foreign'), '');
    chownSync(join(upper, 'foreign'), 100_000, 100_001);
  };
  const { id, pid } = await engine.run(guestSpec({ fill }));
  const { merged } = await engine.layer(id);
  for (const root of [merged, `/proc/${pid}/root`]) {
    expect(statSync(join(root, 'foreign'))).toMatchObject({ uid: 100_000, gid: 100_001 });
  }
  await engine.remove(id);
});

test('a container whose idmount was killed is removed with all its mounts, and its image stays whole', async () => {
  const made = await (await host.engine()).create(guestSpec());
  const layer = dirname(made.upper);
  // The first is not the image's: the engine makes it for the container.
  const [, ...images] = readFileSync(join(layer, 'lower'), 'utf8').split(':');
  const contents = () => images.map((image) => readdirSync(join(dirname(layer), image)).sort());
  const before = contents();
  const idmount = spawn(join(dirname(guestPath), 'idmount'), ['1900000000', layer]);
  await once(idmount.stdout, 'data');
  await host.docker.getContainer(made.id).start();
  idmount.kill('SIGKILL');
  await once(idmount, 'close');
  await engine.remove(made.id);
  expect(readMounts().filter(({ mountPoint }) => mountPoint.startsWith(layer))).toEqual([]);
  expect(existsSync(layer)).toBe(false);
  const id = basename(layer).slice(0, 16);
  expect(readdirSync(join(dirname(layer), 'l')).filter((name) => name.startsWith(id))).toEqual([]);
  expect(contents()).toEqual(before);
});
