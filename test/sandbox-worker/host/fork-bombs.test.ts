import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type Docker from 'dockerode';
import { afterAll, expect, test } from 'vitest';
import { workerConfig } from '../../../services/sandbox-worker/config.ts';
import { createAdmission, type Promised } from '../../../services/sandbox-worker/host/admission.ts';
import { baseImage, createScratchHost, mebibyte } from '../docker/scratch-host.ts';

/** What the host of this test can have: a cgroup around all its containers stands for it. */
const hostPids = 400;
const bomb = '(while :; do sleep 600 & done) 2>/dev/null; echo full; exec sleep 600';

const root = '/sys/fs/cgroup';
const host = createScratchHost();
const name = host.installation;
const isV2 = existsSync(join(root, 'cgroup.controllers'));
const { CgroupDriver } = await host.docker.info();
const mayLimit = process.getuid?.() === 0 && CgroupDriver === 'cgroupfs';

afterAll(async () => {
  await host.close();
  const hierarchies = isV2 ? [root] : readdirSync(root).map((each) => join(root, each));
  for (const each of hierarchies) if (existsSync(join(each, name))) rmdirSync(join(each, name));
});

async function start(script: string, { pids }: Promised): Promise<Docker.Container> {
  const container = await host.docker.createContainer({
    ...{ Image: baseImage(), Entrypoint: ['sh', '-c', script], Labels: host.labels },
    HostConfig: { CgroupParent: `/${name}`, PidsLimit: pids, Memory: 256 * mebibyte, NetworkMode: 'none' },
  });
  await container.start();
  return container;
}

/** Resolves when the bomb can start no more processes. */
async function explode(limits: Promised): Promise<void> {
  const container = await start(bomb, limits);
  for await (const piece of await container.logs({ follow: true, stdout: true })) {
    if (String(piece).includes('full')) return;
  }
}

test.skipIf(!mayLimit)(
  'fork bombs in all the sessions that one project gets leave processes for those of another',
  async () => {
    const cgroup = join(root, isV2 ? '' : 'pids', name);
    mkdirSync(cgroup);
    writeFileSync(join(cgroup, 'pids.max'), String(hostPids));
    const promised: Promised[] = [];
    const factor = Number(workerConfig.shape.ASSAY_OVERCOMMIT_PIDS.parse(undefined));
    const admission = createAdmission({
      promised: () => promised,
      disk: () => undefined,
      host: () => ({ totalMemoryBytes: 2 ** 40, freeMemoryBytes: 2 ** 40, totalPids: hostPids, usedPids: 0 }),
      cpus: () => undefined,
      overcommit: { memory: 1, disk: 1, pids: factor },
      sharePercent: 75,
      memoryFloorBytes: 0,
      pressure: () => undefined,
    });
    const ask = (limits: Promised): void => {
      admission.checkSandbox(limits);
      promised.push(limits);
    };
    const greedy = { cpus: 1, memoryBytes: 0, diskBytes: 0, pids: hostPids / 4, project: 'alpha' };
    const refusals: unknown[] = [];
    for (let count = 0; count < 5; count += 1) {
      try {
        ask(greedy);
      } catch (error) {
        refusals.push(error);
      }
    }
    await Promise.allSettled(promised.map(explode));

    const other = { ...greedy, pids: 50, project: 'beta' };
    ask(other);
    const container = await start('sleep 0 && echo it ran', other);
    await container.wait();
    const logs = await container.logs({ follow: true, stdout: true });
    expect(await text(logs)).toContain('it ran');
    expect(refusals).toEqual([1, 2, 3].map(() => expect.objectContaining({ reason: 'CAPACITY_SHARE' })));
  },
);
