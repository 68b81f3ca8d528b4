import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, test } from 'vitest';
import { type Carrier, carryOnLine } from '../../../services/sandbox-worker/server/carrier.ts';

test('a line that was ended is closed by its reader, and says so then', async () => {
  const asked = Promise.withResolvers<Carrier>();
  const server = createServer((_request, response: ServerResponse) => asked.resolve(carryOnLine(response)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let text = '';
  let ended = false;
  reader.on('data', (data) => {
    text += data.toString('latin1');
  });
  reader.on('end', () => {
    ended = true;
  });
  reader.write('POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
  const carrier = await asked.promise;
  const closed = new Promise<void>((resolve) => carrier.onClose(resolve));
  carrier.end({ 'grpc-status': '0' });
  expect(carrier.gone).toBe(true);
  await expect.poll(() => text).toContain('grpc-status: 0\r\n');
  // A turn in which an end would have come with the rest.
  await new Promise(setImmediate);
  expect(ended).toBe(false);
  reader.destroy();
  await closed;
  server.close();
});
