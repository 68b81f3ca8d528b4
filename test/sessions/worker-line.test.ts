import { EventEmitter, once } from 'node:events';
import type { ClientHttp2Session } from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createWorkerLines, type LineEvents } from '../../services/sessions/worker/worker-line.ts';
import { grpcFrame, trailersFrame } from '../../services/shared/grpc-frame.ts';

const head = 'HTTP/1.1 200 OK\r\n\r\n';
let server: Server;
let asked: Promise<{ socket: Socket; text: string }>;
let link: EventEmitter;

beforeEach(async () => {
  const request = Promise.withResolvers<{ socket: Socket; text: string }>();
  asked = request.promise;
  link = new EventEmitter();
  server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (data) => request.resolve({ socket, text: data.toString('latin1') }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => void server.close());

/** A line to a server that says what the test has it say. */
async function open(answerMs?: number) {
  const links = { open: async () => link as unknown as ClientHttp2Session, isRetired: () => false };
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const line = await createWorkerLines(links, 'the-token', answerMs)(address, { sessionId: 's', executionId: 'e' });
  const over = Promise.withResolvers<{ end?: Record<string, string>; broken?: unknown }>();
  const frames: Buffer[] = [];
  const reader = (more: (bytes: Buffer, release: () => void) => boolean = () => true): LineEvents => ({
    begin() {},
    frames(bytes, release) {
      frames.push(Buffer.from(bytes));
      return more(bytes, release);
    },
    readLimit: () => Number.POSITIVE_INFINITY,
    end: (end) => over.resolve({ end }),
    broken: (broken) => over.resolve({ broken }),
  });
  return { line, frames, over: over.promise, reader };
}

test('a line shows the token and asks for the execution', async () => {
  const { line } = await open();
  const { text } = await asked;
  expect(text).toMatch(/^POST \/assay\.v1\.ExecutionService\/Attach HTTP\/1\.1\r\n/);
  expect(text).toContain('\r\nauthorization: Bearer the-token\r\n');
  line.close();
});

test('what came before anybody read is there, and the trailers end the line', async () => {
  const { line, frames, over, reader } = await open();
  const { socket } = await asked;
  const message = grpcFrame(Buffer.from('early'));
  socket.end(Buffer.concat([Buffer.from(head), message, trailersFrame({ 'grpc-status': '0' })]));
  line.read(reader());
  expect(await over).toEqual({ end: { 'grpc-status': '0' } });
  expect(Buffer.concat(frames).equals(message)).toBe(true);
});

test.each([
  ['before its answer', ''],
  ['in its head', head.slice(0, 9)],
  ['in a message', `${head}\0\0\0\0\x09half`],
  ['between two messages', `${head}\0\0\0\0\x04four`],
  ['in its trailers', `${head}\x80\0\0\0\x0fgrpc-st`],
])('a worker that ends %s broke off', async (_when, said) => {
  const { line, over, reader } = await open();
  line.read(reader());
  (await asked).socket.end(said, 'latin1');
  expect((await over).broken).toBe('it ended early');
});

test('nonsense breaks the line and is told', async () => {
  const { line, over, reader } = await open();
  line.read(reader());
  (await asked).socket.write('HTTP/1.1 500 Oh\r\n\r\n');
  expect((await over).broken).toMatchObject({ message: 'it answered with HTTP/1.1 500 Oh' });
});

test('a line ends with the link to its worker, which is how a silent death is seen', async () => {
  const { line, over, reader } = await open();
  line.read(reader());
  const { socket } = await asked;
  const closed = once(socket, 'close');
  link.emit('close');
  expect((await over).broken).toMatchObject({ message: expect.stringContaining('connection is gone') });
  await closed;
});

test('a line outlives a link that was replaced, and ends with the next one', async () => {
  const [first, second] = [new EventEmitter(), new EventEmitter()];
  let current = first;
  const links = {
    open: async () => current as unknown as ClientHttp2Session,
    isRetired: (session: unknown) => session === first,
  };
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  await createWorkerLines(links, 'the-token')(address, {});
  const { socket } = await asked;
  current = second;
  first.emit('close');
  await expect.poll(() => second.listenerCount('close')).toBe(1);
  expect(socket.destroyed).toBe(false);
  const closed = once(socket, 'close');
  second.emit('close');
  await closed;
});

test('many lines listen to their link once', async () => {
  const links = { open: async () => link as unknown as ClientHttp2Session, isRetired: () => false };
  const openLine = createWorkerLines(links, 'the-token');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const lines = await Promise.all(Array.from({ length: 12 }, () => openLine(address, {})));
  expect(link.listenerCount('close')).toBe(1);
  for (const line of lines) line.close();
});

test('a worker that accepts and does not answer is not waited for for ever', async () => {
  const { line, over, reader } = await open(50);
  line.read(reader());
  expect((await over).broken).toMatchObject({ message: 'no answer in 50 ms' });
});

test('a line that is closed before it was read frees its connection', async () => {
  const { line } = await open();
  const { socket } = await asked;
  const closed = once(socket, 'close');
  line.close();
  await closed;
});

test('little that is read one after the other takes little memory, however long it is held', async () => {
  const { line, reader } = await open();
  const held: Buffer[] = [];
  let more = Promise.withResolvers<void>();
  line.read(
    reader((bytes) => {
      held.push(bytes);
      more.resolve();
      return true;
    }),
  );
  const { socket } = await asked;
  socket.write(head);
  for (let i = 0; i < 200; i++) {
    more = Promise.withResolvers();
    socket.write(grpcFrame(Buffer.alloc(100)));
    await more.promise;
  }
  const memories = new Set(held.map(({ buffer }) => buffer));
  const bytes = [...memories].reduce((sum, { byteLength }) => sum + byteLength, 0);
  // Copies share the slabs of node's own pool.
  expect(bytes).toBeLessThan(256 * 1_024);
  line.close();
});

describe('memory', () => {
  const piece = Buffer.alloc(100_000, 'x');
  const message = (fill: string) => grpcFrame(Buffer.alloc(piece.length, fill));

  test('that was not given back is not read into again', async () => {
    const { line, reader } = await open();
    const held: { bytes: Buffer; was: Buffer }[] = [];
    const all = Promise.withResolvers<void>();
    let seen = 0;
    line.read(
      reader((bytes) => {
        held.push({ bytes, was: Buffer.from(bytes) });
        seen += bytes.length;
        if (seen === 20 * (piece.length + 5)) all.resolve();
        return true;
      }),
    );
    const { socket } = await asked;
    socket.write(head);
    for (let i = 0; i < 20; i++) socket.write(message(String.fromCharCode(97 + i)));
    await all.promise;
    expect(held.every(({ bytes, was }) => bytes.equals(was))).toBe(true);
    line.close();
  });

  test('that was given back is read into again', async () => {
    const { line, reader } = await open();
    const memories = new Set<ArrayBufferLike>();
    const all = Promise.withResolvers<void>();
    let seen = 0;
    line.read(
      reader((bytes, release) => {
        if (bytes.buffer.byteLength > 8_192) memories.add(bytes.buffer);
        seen += bytes.length;
        release();
        if (seen === 200 * (piece.length + 5)) all.resolve();
        return true;
      }),
    );
    const { socket } = await asked;
    socket.write(head);
    for (let i = 0; i < 200; i++) socket.write(message('y'));
    await all.promise;
    // One is being read into while another is looked at; those of lines that ended before are used first.
    expect(memories.size).toBeLessThan(8);
    line.close();
  });
});

test('a reader that wants no more gets none until it says so', async () => {
  const { line, frames, over, reader } = await open();
  const first = Promise.withResolvers<void>();
  line.read(
    reader(() => {
      first.resolve();
      return false;
    }),
  );
  const { socket } = await asked;
  socket.write(Buffer.concat([Buffer.from(head), grpcFrame(Buffer.from('first'))]));
  await first.promise;
  const sent = new Promise((resolve) => socket.end(trailersFrame({ 'grpc-status': '0' }), () => resolve('sent')));
  expect(await sent).toBe('sent');
  // A turn of the event loop in which the trailers would have come.
  await new Promise(setImmediate);
  expect(await Promise.race([over, Promise.resolve('nothing')])).toBe('nothing');
  expect(frames).toHaveLength(1);
  line.resume();
  expect(await over).toEqual({ end: { 'grpc-status': '0' } });
});
