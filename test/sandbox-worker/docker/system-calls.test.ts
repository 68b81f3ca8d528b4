import { copyFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { createGuestBuild, type GuestBuild } from '../../guest/guest-process.ts';
import { baseImage, createScratchHost, nothingLeft } from './scratch-host.ts';

const { guestPath } = inject('setup');
const host = createScratchHost();
const refusals = ['1', '38'];
let build: GuestBuild;
let imageId: string;

beforeAll(async () => {
  build = await createGuestBuild();
  await build.make(`${build.directory}/every-call`);
  imageId = (await (await host.engine()).image(baseImage())).id;
});
afterAll(async () => {
  await build?.remove();
  expect(await host.close()).toEqual(nothingLeft);
});

/** The error of each call, as a program sees it that the engine starts in a container of this engine. */
async function errors(engine: Engine): Promise<ReadonlyMap<string, string>> {
  const spec = host.spec(imageId);
  copyFileSync(guestPath, join(spec.slotDirectory, 'guest'));
  copyFileSync(join(build.directory, 'every-call'), join(spec.slotDirectory, 'every-call'));
  const { id } = await engine.run(spec);
  let said = '';
  const program = await engine.exec(id, {
    args: ['/run/assay/every-call'],
    env: {},
    workingDirectory: '/',
    user: { uid: 64_990, gid: 64_990 },
    stdout: (data) => {
      said += data;
    },
    stderr: (data) => {
      said += data;
    },
  });
  while ((await program.exitCode()) === undefined) await delay(20);
  await program.drained;
  await engine.remove(id);
  const lines = said.trim().split('\n');
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), line.slice(line.lastIndexOf(' ') + 1)]));
}

test('a container with host ids of its own may make no system call that one without may not', async () => {
  const plain = await errors(await host.engine());
  const own = await errors(await host.engine({ idmountPath: join(dirname(guestPath), 'idmount') }));
  expect(own.size).toBeGreaterThan(500);
  expect([...own.keys()]).toEqual([...plain.keys()]);
  const gained = [...own].filter(([call, error]) => {
    return refusals.includes(plain.get(call) ?? '') && !refusals.includes(error);
  });
  expect(gained).toEqual([]);
});
