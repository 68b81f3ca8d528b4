import { once } from 'node:events';
import { type ClientHttp2Session, connect, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { createSharedStreams } from '../../services/sessions/worker/shared-stream.ts';

/** Executes on this link, and resolves with what the call's reader is told when the stream breaks. */
function execute(session: ClientHttp2Session): Promise<unknown> {
  const links = { open: async () => session, watch() {} };
  return new Promise((resolve, reject) => {
    const reader = { frames() {}, end() {}, broken: resolve };
    createSharedStreams(links, 'token').execute('a:1', 'p', new Uint8Array(), undefined, reader).catch(reject);
  });
}

/** Streams that share one link to this server, and a reader that minds nothing. */
async function shareLink(server: Http2Server) {
  const session = await linkTo(server);
  const shared = createSharedStreams({ open: async () => session, watch() {} }, 'token');
  return { session, shared, reader: { frames() {}, end() {}, broken() {} } };
}

async function linkTo(server: Http2Server): Promise<ClientHttp2Session> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

test('a call on a link that was just destroyed hears that its stream broke', async () => {
  const server = createServer();
  const session = await linkTo(server);
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

test('what one project sends and the worker does not read holds up no other project', async () => {
  const server = createServer({ settings: { initialWindowSize: 65_535 } });
  const heard: Buffer[] = [];
  const fromBeta = Promise.withResolvers<void>();
  // The first stream is alpha's, and is never read.
  let streams = 0;
  server.on('stream', (stream) => {
    if (++streams === 1) return;
    stream.on('data', (chunk: Buffer) => {
      heard.push(chunk);
      if (Buffer.concat(heard).includes('from beta')) fromBeta.resolve();
    });
  });
  const { session, shared, reader } = await shareLink(server);
  for (let count = 0; count < 8; count++)
    await shared.execute('a:1', 'alpha', new Uint8Array(1_048_576), undefined, reader);
  await shared.execute('a:1', 'beta', Buffer.from('from beta'), undefined, reader);
  await fromBeta.promise;
  session.destroy();
  server.close();
});

test('requests that were left before their worker read them are not held, and later ones come in order', async () => {
  const server = createServer();
  const opened = Promise.withResolvers<ServerHttp2Stream>();
  server.on('stream', opened.resolve);
  const { session, shared, reader } = await shareLink(server);
  const execute = (request: Uint8Array) => shared.execute('a:1', 'p', request, undefined, reader);
  for (let count = 0; count < 32; count++) {
    const leave = await execute(new Uint8Array(1_048_576));
    leave();
  }
  for (let count = 0; count < 8; count++) await execute(Buffer.alloc(1_048_576, `<${count}>`));
  const stream = await opened.promise;
  let bytes = 0;
  let order = '';
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    for (const [found] of chunk.toString('latin1').matchAll(/<\d>/g)) if (!order.endsWith(found)) order += found;
    if (bytes > 8 * 1_048_576 && order.endsWith('<7>')) break;
  }
  expect(order).toBe('<0><1><2><3><4><5><6><7>');
  expect(bytes).toBeLessThan(16 * 1_048_576);
  session.destroy();
  server.close();
});
