import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import * as net from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createConnection } from '../../../clients/typescript/connection.ts';
import { createClient } from '../../../clients/typescript/index.ts';
import { type Certificate, makeCertificate } from '../../e2e/certificate.ts';
import { startHttp2Proxy, startTunnel } from '../../e2e/tls-proxy.ts';
import { startServerDouble } from './server-double.ts';

let certificate: Certificate;
beforeAll(() => {
  certificate = makeCertificate();
});
afterAll(() => certificate?.remove());

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** The failure of the first call to an endpoint. */
async function failureAt(endpoint: string, ca?: string): Promise<unknown> {
  using client = createClient({ endpoint, connectTimeoutMs: 200, ...(ca === undefined ? {} : { ca }) });
  return await client.sessions.get('ses_1').catch((failure: unknown) => failure);
}

async function startDouble(): Promise<string> {
  const server = await startServerDouble({ session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) } });
  cleanups.push(() => server.stop());
  return server.endpoint;
}

async function listen(server: net.Server): Promise<number> {
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as net.AddressInfo).port;
}

test('the client of a proxy with TLS trusts the authority it is given, beside its own', async () => {
  const proxy = await startHttp2Proxy(certificate, await startDouble());
  cleanups.push(() => proxy.stop());
  using client = createClient({ endpoint: proxy.endpoint, ca: [certificate.authority] });
  expect((await client.sessions.get('ses_1')).id).toBe('ses_1');
});

test('a certificate that nobody vouches for is refused at once, with what to do', async () => {
  const proxy = await startHttp2Proxy(certificate, await startDouble());
  cleanups.push(() => proxy.stop());
  expect(await failureAt(proxy.endpoint)).toMatchObject({
    reason: 'CERTIFICATE_NOT_TRUSTED',
    transient: false,
    unsent: true,
    message: expect.stringMatching(
      /^the certificate of https:\/\/127\.0\.0\.1:\d+ is not trusted: .*NODE_EXTRA_CA_CERTS/,
    ),
  });
});

test('a certificate for another name is refused at once', async () => {
  const proxy = await startHttp2Proxy(certificate, await startDouble());
  cleanups.push(() => proxy.stop());
  const named = proxy.endpoint.replace('127.0.0.1', 'localhost');
  expect(await failureAt(named, certificate.authority)).toMatchObject({
    reason: 'CERTIFICATE_NOT_TRUSTED',
    message: expect.stringContaining('localhost'),
  });
});

test('an address with https of a server without TLS is told', async () => {
  const plain = await startDouble();
  expect(await failureAt(plain.replace('http:', 'https:'))).toMatchObject({
    reason: 'WRONG_PROTOCOL',
    message: expect.stringContaining('may begin with http://'),
  });
});

test.each([
  ['HTTP/2', startHttp2Proxy],
  ['bytes', startTunnel],
])('an address with http of a proxy with TLS for %s is told', async (_, start) => {
  const proxy = await start(certificate, await startDouble());
  cleanups.push(() => proxy.stop());
  expect(await failureAt(proxy.endpoint.replace('https:', 'http:'))).toMatchObject({
    reason: 'WRONG_PROTOCOL',
    message: expect.stringContaining('may begin with https://'),
  });
});

test('a server of HTTP/1.1 is told, with TLS and without', async () => {
  const { key, cert } = certificate;
  const secure = await listen(https.createServer({ key, cert }));
  expect(await failureAt(`https://127.0.0.1:${secure}`, certificate.authority)).toMatchObject({
    reason: 'WRONG_PROTOCOL',
    message: expect.stringMatching(/HTTP\/2.*\(tlsv1 alert no application protocol\)$/),
  });
  const plain = await listen(http.createServer());
  expect(await failureAt(`http://127.0.0.1:${plain}`)).toMatchObject({ reason: 'WRONG_PROTOCOL' });
});

test.each(['http', 'https'])(
  'a server that accepts connections for %s and says nothing is given up',
  async (scheme) => {
    const port = await listen(net.createServer());
    const connection = createConnection(`${scheme}://127.0.0.1:${port}`, { greetingMs: 50 });
    cleanups.push(() => connection.close());
    const answered = connection.request('/', undefined).then(async (stream) => {
      // It fails twice: with its connection, and because nobody answered.
      stream.on('error', () => undefined);
      await once(stream, 'response');
    });
    await expect(answered).rejects.toThrow(/nothing was said for 50 ms|no connection after 50 ms/);
  },
);

test('an endpoint with a path is refused', () => {
  expect(() => createClient({ endpoint: 'https://127.0.0.1:7070/assay' })).toThrow(/give an address such as/);
});
