import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasEnded } from '../../services/sandbox-worker/docker/container-kill.ts';
import {
  baseImage,
  boundLoopFiles,
  createScratchHost,
  nothingLeft,
  type ScratchHost,
} from '../sandbox-worker/docker/scratch-host.ts';
import { type OwnEngine, startOwnEngine } from './own-engine.ts';

let own: OwnEngine;
let host: ScratchHost;

beforeAll(async () => {
  own = await startOwnEngine();
  host = createScratchHost();
});
afterAll(async () => {
  expect(await host?.close()).toEqual(nothingLeft);
  await own?.stop();
});

test('a removed container whose processes its engine has lost gives back its disk, and nobody else is killed', async () => {
  const engine = await host.engine({ socketPath: own.socket, command: ['sleep', 'infinity'] });
  const image = await engine.image(baseImage());
  const { id, pid } = await engine.run(host.spec(image.id));
  const other = await engine.run(host.spec(image.id));
  const bystander = spawn('sh', ['-c', 'echo; read line', 'containerd-shim', '-id', id]);
  await once(bystander.stdout, 'data');
  await own.crashAndForget(id);
  expect(await engine.pid(id)).toBeUndefined();
  expect(hasEnded(pid)).toBe(false);
  await engine.remove(id);
  expect(hasEnded(pid)).toBe(true);
  expect(boundLoopFiles().filter((file) => file.startsWith(host.directory))).toHaveLength(1);
  expect(await engine.pid(other.id)).toBe(other.pid);
  expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
  bystander.stdin.end();
  await engine.remove(other.id);
});
