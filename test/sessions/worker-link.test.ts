import { once } from 'node:events';
import { type ClientHttp2Stream, constants, createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { WorkerService } from '../../gen/assay/internal/v1/worker_pb.js';
import { createWorkerClient } from '../../services/sessions/worker/worker-client.ts';
import { createWorkerLinks, type WorkerLinks } from '../../services/sessions/worker/worker-link.ts';
import { grpcFrame } from '../../services/shared/grpc-frame.ts';

let server: Http2Server;
let address: string;
let links: WorkerLinks;
/** In the order in which they came. */
let sessions: ServerHttp2Session[];
/** Those that refuse new streams, and answer pings all the same. */
let refusing: Set<unknown>;
let code: number;

beforeEach(async () => {
  sessions = [];
  refusing = new Set();
  code = constants.NGHTTP2_ENHANCE_YOUR_CALM;
  server = createServer();
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream) => {
    stream.on('error', () => {});
    if (refusing.has(stream.session)) return stream.close(code);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' });
    stream.write(grpcFrame(new Uint8Array()));
    stream.once('end', () => stream.end()).resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  links = createWorkerLinks();
});
afterEach(() => {
  links.close();
  server.close();
});

const call = () =>
  createWorkerClient(links, 'token')
    .call(address, WorkerService.method.refreshSandbox, {}, { timeoutMs: 5_000 })
    .then(
      () => 'answered',
      ({ reason }) => reason,
    );

/** Of the newest link: a stream that stays open. */
async function openStream(): Promise<ClientHttp2Stream> {
  const stream = (await links.open(address)).request({ ':method': 'POST', ':path': '/long' });
  await once(stream, 'response');
  return stream.resume();
}

test('windows are small together, however many streams a project opens, and those of others are not', async () => {
  const client = createWorkerClient(links, 'token');
  const windows: number[] = [];
  server.on('stream', ({ session }) => windows.push(session?.remoteSettings.initialWindowSize ?? 0));
  const open = async (project: string): Promise<ClientHttp2Stream> => {
    const stream = await client.openStream(address, WorkerService.method.followSandbox, {}, { project });
    await once(stream, 'response');
    return stream;
  };
  const opened = await Promise.all(Array.from({ length: 1_000 }, () => open('greedy')));
  expect(windows.reduce((sum, bytes) => sum + bytes)).toBeLessThan(100 * 1_048_576);
  windows.length = 0;
  await open('modest');
  expect(windows).toEqual([1_048_576]);
  const closed = opened.map((stream) => new Promise<void>((resolve) => stream.once('close', () => resolve())));
  for (const stream of opened) stream.destroy();
  await Promise.all(closed);
  windows.length = 0;
  await open('greedy');
  expect(windows).toEqual([1_048_576]);
});

test.each([
  ['ENHANCE_YOUR_CALM', constants.NGHTTP2_ENHANCE_YOUR_CALM],
  ['REFUSED_STREAM', constants.NGHTTP2_REFUSED_STREAM],
])('a link that refuses streams with %s is replaced, and left to the streams that it has', async (_name, given) => {
  code = given;
  const link = await links.open(address);
  const long = await openStream();
  refusing.add(sessions[0]);
  expect(await call()).toBe('WORKER_UNREACHABLE');
  expect(await call()).toBe('answered');
  expect(sessions).toHaveLength(2);
  expect(await links.open(address)).not.toBe(link);
  expect([link.destroyed, long.destroyed]).toEqual([false, false]);
  const closed = once(link, 'close');
  long.end();
  await closed;
});

test('a probe finds a link that refuses streams, and the next one finds that its worker is back', async () => {
  const { reach } = createWorkerClient(links, 'token');
  await reach(address);
  refusing.add(sessions[0]);
  await expect(reach(address)).rejects.toMatchObject({ reason: 'WORKER_UNREACHABLE' });
  await reach(address);
});

test('links to a worker that refuses every stream do not become more and more', async () => {
  const kept: ClientHttp2Stream[] = [];
  for (let round = 0; round < 10; round++) {
    kept.push(await openStream().catch(() => undefined as never));
    refusing.add(sessions.at(-1));
    expect(await call()).toBe('WORKER_UNREACHABLE');
  }
  expect(sessions).toHaveLength(5);
});
