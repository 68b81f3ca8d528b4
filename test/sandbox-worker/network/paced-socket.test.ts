import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurnOfLoop } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { PacedSocket, type Turn } from '../../../services/sandbox-worker/network/egress/paced-socket.ts';
import { listening } from './raw-exchange.ts';

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0)) undo();
});

/** Both ends of a connection, one of them paced. */
async function pacedPair(turn: Turn): Promise<{ sender: Socket; socket: Socket; paced: PacedSocket }> {
  const { server, port } = await listening();
  const sender = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  sender.on('error', () => {});
  const [socket] = (await once(server, 'connection')) as [Socket];
  const paced = new PacedSocket(socket, turn, 30_000);
  cleanUp.push(() => {
    paced.destroy();
    sender.destroy();
    server.close();
  });
  return { sender, socket, paced };
}

async function turnsOfLoop(count: number): Promise<void> {
  for (let index = 0; index < count; index++) await nextTurnOfLoop();
}

test('a chunk that waits is followed by the end, not overtaken by it', async () => {
  const asked = Promise.withResolvers<void>();
  const turn = Promise.withResolvers<void>();
  const { sender, socket, paced } = await pacedPair(() => {
    asked.resolve();
    return turn.promise;
  });
  const got: Buffer[] = [];
  paced.on('data', (chunk) => got.push(chunk));
  sender.write('whole');
  await asked.promise;
  const ended = once(socket, 'end');
  sender.end();
  await ended;
  // The other direction ends too: nothing keeps the socket open but what waits.
  paced.end();
  await once(socket, 'close');
  expect(got).toEqual([]);
  const end = once(paced, 'end');
  turn.resolve();
  await end;
  expect(Buffer.concat(got).toString()).toBe('whole');
});

test('a socket is not read while its chunk waits', async () => {
  const asked = Promise.withResolvers<void>();
  let turns = 0;
  const { sender, socket, paced } = await pacedPair(() => {
    turns++;
    asked.resolve();
    return new Promise(() => {});
  });
  paced.resume();
  sender.write(Buffer.alloc(32 * 1_048_576));
  await asked.promise;
  await turnsOfLoop(200);
  expect(turns).toBe(1);
  expect(socket.bytesRead).toBeLessThan(262_144);
  expect(sender.writableLength).toBeGreaterThan(0);
});

test.each<{ title: string; turn: Turn }>([
  { title: 'turns come at once', turn: () => undefined },
  { title: 'turns are waited for', turn: () => nextTurnOfLoop() },
])('a socket is not read while nobody reads what it sent, where $title', async ({ turn }) => {
  const { sender, socket, paced } = await pacedPair(turn);
  sender.write(Buffer.alloc(32 * 1_048_576));
  paced.read(0);
  await once(paced, 'readable');
  await turnsOfLoop(200);
  expect(socket.bytesRead).toBeLessThan(524_288);
});

test('an end that came before the socket was paced is passed on', async () => {
  const { server, port } = await listening();
  const sender = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const [socket] = (await once(server, 'connection')) as [Socket];
  sender.end();
  await once(socket, 'end');
  const paced = new PacedSocket(socket, () => undefined, 30_000);
  cleanUp.push(() => {
    paced.destroy();
    sender.destroy();
    server.close();
  });
  paced.resume();
  await once(paced, 'end');
});
