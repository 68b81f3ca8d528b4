import { once } from 'node:events';
import { createServer } from 'node:http2';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createConnection } from '../../../clients/typescript/connection.ts';

const portOf = (server: { address(): AddressInfo | string | null }): number => (server.address() as AddressInfo).port;

test('a call goes on by another connection when the first is closed while it is looked at', async () => {
  const server = createServer().on('stream', (stream) => stream.respond({ ':status': 204 }, { endStream: true }));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const clients: Socket[] = [];
  const proxy = createTcpServer((near) => {
    clients.push(near);
    const far = connect(portOf(server), '127.0.0.1');
    near.on('error', () => {}).on('close', () => far.destroy());
    far.on('error', () => {});
    near.pipe(far).pipe(near);
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const pingMs = 20;
  const connection = createConnection(`http://127.0.0.1:${portOf(proxy)}`, { pingMs });
  const answer = async (): Promise<unknown> => {
    const call = await connection.request('/first', undefined);
    call.end().resume();
    const [headers] = await once(call, 'response');
    await once(call, 'close');
    return headers[':status'];
  };
  expect(await answer()).toBe(204);
  // The connection has been idle for longer than the client trusts one.
  await delay(pingMs * 3);
  const [first] = clients as [Socket];
  const pinged = new Promise((resolve) => first.unpipe().once('data', resolve));
  first.resume();
  const second = answer();
  await pinged;
  // In good order, so that nobody sees an error.
  first.end();
  expect(await second).toBe(204);
  expect(clients).toHaveLength(2);
  connection.close();
  proxy.close();
  server.close();
});
