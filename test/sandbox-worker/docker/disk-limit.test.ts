import { existsSync, readdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { acceptsStorageOpt } from '../../../services/sandbox-worker/docker/disk-limit-probe.ts';
import { createEngine } from '../../../services/sandbox-worker/docker/docker-engine.ts';
import {
  baseImage,
  boundLoopFiles,
  createScratchHost,
  log,
  mebibyte,
  nothingLeft,
  socketPath,
} from './scratch-host.ts';

const host = createScratchHost();
const disks = join(host.directory, 'disks');

afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

test('a disk filler meets ENOSPC in /tmp, in /workspace and in HOME, and space comes back when files go', async () => {
  const script = `
    for place in /tmp /workspace /home/agent; do
      head -c 1G /dev/zero > $place/fill || true
      stat -c '%n %s' $place/fill
      rm $place/fill
    done
    echo after > /workspace/after && cat /workspace/after`;
  const { id, pid, said, engine } = await host.report(script);
  expect(said.match(/No space left on device/g)).toHaveLength(3);
  for (const place of ['/tmp', '/workspace', '/home/agent']) {
    const size = Number(new RegExp(`^${place}/fill (\\d+)$`, 'm').exec(said)?.[1]);
    expect(size).toBeGreaterThan(48 * mebibyte);
    expect(size).toBeLessThan(64 * mebibyte);
  }
  expect(said).toMatch(/^after$/m);
  const { blocks, bsize } = statfsSync(`/proc/${pid}/root`);
  expect(blocks * bsize).toBeLessThanOrEqual(64 * mebibyte);
  await engine.pause(id);
  await engine.resume(id);
  await engine.remove(id);
  expect(boundLoopFiles().filter((file) => file.startsWith(host.directory))).toEqual([]);
  expect(existsSync(disks) ? readdirSync(disks) : []).toEqual([]);
});

test('many small files run into the limit, not into the host', async () => {
  const script = `
    cd /workspace && mkdir many && cd many
    i=0; while true > f$i; do i=$((i+1)); [ $i -lt 20000 ] || break; done 2>/dev/null
    echo made $i; cd .. && rm -rf many && echo gone`;
  const { id, said, engine } = await host.report(script, {
    limits: { cpus: 2, memoryBytes: 256 * mebibyte, diskBytes: 32 * mebibyte, pids: 64 },
  });
  const made = Number(/made (\d+)/.exec(said)?.[1]);
  expect(made).toBeGreaterThan(3_000);
  expect(made).toBeLessThan(20_000);
  expect(said).toContain('gone');
  await engine.remove(id);
});

test('what the engine wrote into the layer at creation is still there, with its owner', async () => {
  // A working directory that the image lacks is made by the engine at creation, in the layer that the disk covers.
  const base = (await host.docker.getImage(baseImage()).inspect()).Id;
  const tagged = { repo: 'assay-test/workdir', tag: host.installation };
  const container = await host.docker.createContainer({ Image: base, Cmd: ['/bin/true'], Labels: host.labels });
  await container.commit({ ...tagged, changes: 'WORKDIR /made/by/engine' });
  await container.remove();
  const imageId = `${tagged.repo}:${tagged.tag}`;
  try {
    const { id, said, engine } = await host.report('pwd; stat -c "%u:%g %a" /made/by/engine; touch x', { imageId });
    expect(said).toMatch(/^\/made\/by\/engine\n0:0 755\n/);
    expect(said).toContain('Permission denied');
    await engine.remove(id);
  } finally {
    await host.docker.getImage(imageId).remove();
  }
});

test('an engine that cannot limit a disk refuses to run unless the operator accepts it', async () => {
  const command = ['/bin/sleep', 'infinity'];
  const unprobed = { socketPath, log, templateDirectory: host.directory, command };
  const spec = host.spec(baseImage());
  expect(createEngine(unprobed).capabilities).toEqual([]);
  await expect(createEngine(unprobed).run(spec)).rejects.toMatchObject({
    reason: 'ENGINE_FAILED',
    message: expect.stringContaining('ASSAY_ALLOW_UNLIMITED_DISK'),
  });
});

test('the probe of storage-opt leaves no image and no container', async () => {
  expect(typeof (await acceptsStorageOpt(host.docker))).toBe('boolean');
  const images = await host.docker.listImages({ filters: { reference: ['assay/probe'] } });
  // Another run may be at its own.
  const ours = images.flatMap(({ RepoTags }) => RepoTags ?? []).filter((name) => name.includes(`:p${process.pid}-`));
  expect(ours).toEqual([]);
});
