import { once } from 'node:events';
import { type ClientHttp2Session, connect, createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createSharedStreams } from '../../services/sessions/worker/shared-stream.ts';

/** Executes on this link, and resolves with what the call's reader is told when the stream breaks. */
function execute(session: ClientHttp2Session): Promise<unknown> {
  const links = { size: 1, open: async () => session, close() {} };
  return new Promise((resolve, reject) => {
    const reader = { frames() {}, end() {}, broken: resolve };
    createSharedStreams(links, 'token').execute('a:1', new Uint8Array(), undefined, reader).catch(reject);
  });
}

test('a call on a link that was just destroyed hears that its stream broke', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await once(session, 'connect');
  session.destroy();
  expect(await execute(session)).toMatchObject({ code: 'ERR_HTTP2_INVALID_SESSION' });
  server.close();
});

test('a call on a link that takes no request is told that the worker cannot be reached', async () => {
  const request = (): never => {
    throw Object.assign(new Error('The session has been destroyed'), { code: 'ERR_HTTP2_INVALID_SESSION' });
  };
  await expect(execute({ request } as never)).rejects.toMatchObject({ reason: 'WORKER_UNREACHABLE' });
});
