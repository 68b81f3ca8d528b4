import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { containerOptions, guestCommand } from '../../../services/sandbox-worker/docker/container-options.ts';
import { createEngine } from '../../../services/sandbox-worker/docker/docker-engine.ts';
import type { Engine, RunningContainer } from '../../../services/sandbox-worker/docker/engine.ts';
import { baseImage, createScratchHost, log, mebibyte, nothingLeft } from './scratch-host.ts';

const host = createScratchHost();
let engine: Engine;
let imageId: string;

beforeAll(async () => {
  engine = await host.engine({ command: ['/bin/sleep', 'infinity'] });
  imageId = (await engine.image(baseImage())).id;
});

afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

function run(change = {}): Promise<RunningContainer> {
  return engine.run(host.spec(imageId, change));
}

/** Once the program itself runs: for a moment after its start the process is still the engine's, without the filter. */
async function runProgram(change = {}): Promise<RunningContainer> {
  const running = await run(change);
  await expect.poll(() => readFileSync(`/proc/${running.pid}/cmdline`, 'utf8')).toBe('/bin/sleep\0infinity\0');
  return running;
}

describe('a running container', () => {
  test('has no capability, no new privileges, no network, a filter and the session user', async () => {
    const { id, pid } = await runProgram();
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    expect(status).toMatch(/^CapEff:\t0+$/m);
    expect(status).toMatch(/^CapBnd:\t0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).toMatch(/^Seccomp:\t2$/m);
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
    expect(status).toMatch(/^Gid:\t1000\t1000\t1000\t1000$/m);
    const interfaces = readFileSync(`/proc/${pid}/net/dev`, 'utf8').split('\n').slice(2).filter(Boolean);
    expect(interfaces.map((line) => line.split(':')[0]?.trim())).toEqual(['lo']);
    expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/Max core file size\s+0\s+0/);
    await engine.remove(id);
  });

  test('carries its limits, its labels and its secret, and sees the slot read-only', async () => {
    const { id, pid } = await runProgram({ secretHex: 'ab'.repeat(32) });
    const info = await host.docker.getContainer(id).inspect();
    expect(info.HostConfig).toMatchObject({
      Memory: 256 * mebibyte,
      MemorySwap: 256 * mebibyte,
      NanoCpus: 1e9,
      PidsLimit: 64,
      NetworkMode: 'none',
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'none' },
    });
    expect(info.Config.Hostname).toBe('sandbox');
    expect(readFileSync(`/proc/${pid}/environ`, 'latin1')).toContain(`ASSAY_GUEST_SECRET=${'ab'.repeat(32)}`);
    const slot = readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
      .split('\n')
      .find((line) => line.split(' ')[4] === '/run/assay');
    expect(slot?.split(' ')[5]?.split(',')).toContain('ro');
    const [listed] = await engine.list(host.installation);
    expect(listed).toMatchObject({ id, state: 'running', labels: { 'dev.assay.installation': host.installation } });
    await engine.remove(id);
    expect(await engine.list(host.installation)).toEqual([]);
  });

  test('has no score that would protect its programs from the out-of-memory killer, whatever the engine may do', () => {
    const spec = host.spec(imageId);
    const scores = [true, false].map((raiseLimits) => {
      const { HostConfig } = containerOptions(spec, guestCommand, { storageOpt: undefined, raiseLimits });
      return HostConfig?.OomScoreAdj;
    });
    expect(scores).toEqual([0, 0]);
  });

  test('can be paused twice and resumed twice', async () => {
    const { id, pid } = await run();
    await engine.pause(id);
    await engine.pause(id);
    expect((await engine.list(host.installation)).map(({ state }) => state)).toEqual(['paused']);
    expect(await engine.pid(id)).toBe(pid);
    await engine.resume(id);
    await engine.resume(id);
    expect((await engine.list(host.installation)).map(({ state }) => state)).toEqual(['running']);
    await engine.remove(id);
    await expect(engine.pause(id)).rejects.toMatchObject({ reason: 'SANDBOX_LOST' });
  });
});

describe('removal', () => {
  test('works on a paused container, twice at once, and again when it is gone', async () => {
    const { id } = await run();
    await engine.pause(id);
    await Promise.all([engine.remove(id), engine.remove(id)]);
    await engine.remove(id);
    expect(await engine.pid(id)).toBeUndefined();
  });

  test('works on a container that was created and never started', async () => {
    const Labels = { 'dev.assay.installation': host.installation };
    const { id } = await host.docker.createContainer({ Image: imageId, Cmd: ['/bin/true'], Labels });
    expect((await engine.list(host.installation)).map(({ state }) => state)).toEqual(['created']);
    await engine.remove(id);
    expect(await engine.list(host.installation)).toEqual([]);
  });

  test('of an engine that does not know what the container was made with frees everything too', async () => {
    const { id } = await run();
    const successor = await host.engine();
    await successor.remove(id);
    expect(await engine.list(host.installation)).toEqual([]);
  });
});

describe('a start that fails', () => {
  test('leaves no container and no disk behind', async () => {
    const broken = await host.engine({ command: ['/no/such/program'] });
    await expect(broken.run(host.spec(imageId))).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
    await expect(run({ slotDirectory: '/no/such/directory' })).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
    await expect(run({ imageId: `sha256:${'0'.repeat(64)}` })).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
    await expect(run({ diskDirectory: '/etc/passwd/disks' })).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
    expect(await engine.list(host.installation)).toEqual([]);
  });

  test('because the name is taken does not touch the container that has it', async () => {
    const spec = host.spec(imageId);
    const { id, pid } = await engine.run(spec);
    await expect(engine.run(spec)).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
    expect(await engine.pid(id)).toBe(pid);
    await engine.remove(id);
  });
});

test('many creations at once all end well', async () => {
  const running = await Promise.all(Array.from({ length: 10 }, () => run()));
  expect(new Set(running.map(({ pid }) => pid)).size).toBe(10);
  await Promise.all(running.map(({ id }) => engine.remove(id)));
});

test('the death of a container is told, and that of another installation is not', async () => {
  const deaths = new EventEmitter();
  const watch = engine.watch(host.installation, (id) => deaths.emit('died', id));
  const strangers = engine.watch('another-installation', () => deaths.emit('error', new Error('told of a stranger')));
  const { id, pid } = await run();
  const died = once(deaths, 'died');
  process.kill(pid, 'SIGKILL');
  expect(await died).toEqual([id]);
  watch.close();
  strangers.close();
  await engine.remove(id);
});

test('an engine that does not answer says what to type', async () => {
  const silent = createEngine({ socketPath: '/no/such.sock', log, templateDirectory: host.directory });
  await expect(silent.ready()).rejects.toMatchObject({
    reason: 'ENGINE_FAILED',
    message: expect.stringContaining('dockerd'),
  });
});
