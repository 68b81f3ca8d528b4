import { once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createEngine } from '../../../services/sandbox-worker/docker/docker-engine.ts';
import { createScratchHost, log, nothingLeft, socketPath } from './scratch-host.ts';

const host = createScratchHost();

afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

/** A socket in front of the engine's that is closed in the face of the first callers, as by one that restarts. */
async function awayFor(path: string, callers: number) {
  const open = new Set<Socket>();
  let left = callers;
  const server = createServer((near) => {
    open.add(near);
    near.on('error', () => near.destroy()).on('close', () => open.delete(near));
    if (left > 0) {
      left -= 1;
      near.destroy();
      return;
    }
    const far = dial(socketPath);
    near.on('close', () => far.destroy());
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  server.listen(path);
  await once(server, 'listening');
  return {
    close() {
      for (const near of open) near.destroy();
      server.close();
    },
  };
}

test('an engine that is away for a moment pauses and resumes once it is back', async () => {
  const { id, engine } = await host.report('true');
  const isPaused = async (): Promise<boolean> => (await host.docker.getContainer(id).inspect()).State.Paused;
  for (const paused of [true, false]) {
    const path = join(host.directory, `away-${paused}.sock`);
    const door = await awayFor(path, 4);
    const behind = createEngine({ socketPath: path, log, templateDirectory: host.directory });
    await (paused ? behind.pause(id) : behind.resume(id));
    expect(await isPaused()).toBe(paused);
    door.close();
  }
  await engine.remove(id);
});
