import { EventEmitter, once } from 'node:events';
import { createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createEngine } from '../../../services/sandbox-worker/docker/docker-engine.ts';
import { deadContainer } from '../../../services/sandbox-worker/docker/event-watch.ts';
import { createScratchHost, log, nothingLeft, socketPath } from './scratch-host.ts';

const host = createScratchHost();

afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

/** A socket in front of the engine's, whose connections can be cut. */
async function listen(path: string) {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = dial(socketPath);
    near.on('error', () => far.destroy()).on('close', () => far.destroy());
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.pipe(far).pipe(near);
    open.add(near);
  });
  server.listen(path);
  await once(server, 'listening');
  const cut = () => {
    for (const socket of open) socket.destroy();
    open.clear();
  };
  return { cut, close: () => server.close() };
}

test('an event stream says when it is open, also again after it broke, and tells of deaths from then on', async () => {
  const path = join(host.directory, 'engine.sock');
  const proxy = await listen(path);
  const { id, pid, engine } = await host.report('true');
  const told = new EventEmitter();
  const watched = createEngine({ socketPath: path, log, templateDirectory: host.directory });
  const opened = once(told, 'connected');
  const watch = watched.watch(
    host.installation,
    (dead) => told.emit('died', dead),
    () => told.emit('connected'),
  );
  await opened;
  const reopened = once(told, 'connected');
  proxy.cut();
  await reopened;
  const died = once(told, 'died');
  process.kill(pid, 'SIGKILL');
  expect(await died).toEqual([id]);
  watch.close();
  proxy.cut();
  proxy.close();
  await engine.remove(id);
});

test('only the end of a container is a death', () => {
  expect(deadContainer('{"Action":"die","Actor":{"ID":"abc"}}')).toBe('abc');
  for (const line of ['', ' ', '{}', '{"Action":"start","Actor":{"ID":"abc"}}', '{"Action":"die","Actor":{"ID":7}}']) {
    expect(deadContainer(line)).toBeUndefined();
  }
});
