import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { holderOf, isHeldBy } from '../../scripts/stack/listener.mjs';
import { freePort } from '../../scripts/stack/port.mjs';

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['0.0.0.0', '127.0.0.1'],
  ['::1', '::1'],
  ['::', '::1'],
  ['::', '127.0.0.1'],
])('a socket that listens on %s holds %s', async (listen, asked) => {
  const server = createServer().listen(0, listen);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  expect(await isHeldBy(process.pid, asked, port)).toBe(true);
  expect(await isHeldBy(process.ppid, asked, port)).toBe(false);
  expect(await isHeldBy(undefined, asked, port)).toBe(false);
  expect(await holderOf(asked, port)).toMatch(`(process ${process.pid})`);
  server.close();
});

test('an address that nobody listens on is held by nobody', async () => {
  const port = await freePort();
  expect(await isHeldBy(process.pid, '127.0.0.1', port)).toBe(false);
  expect(await holderOf('127.0.0.1', port)).toBeUndefined();
});

test('a socket on another address of the machine holds nothing here', async () => {
  const server = createServer().listen(0, '127.0.0.2');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  expect(await holderOf('127.0.0.1', port)).toBeUndefined();
  server.close();
});
