import { once } from 'node:events';
import { Duplex } from 'node:stream';
import { expect, test } from 'vitest';
import { joinSockets } from '../../../services/sandbox-worker/network/egress/tunnel.ts';

/** One end of a tunnel; what is written to it is taken when `letGo` resolves. */
function createEnd(letGo: Promise<void> = Promise.resolve()) {
  const got: string[] = [];
  const socket = new Duplex({
    read() {},
    write(chunk, _, done) {
      void letGo.then(() => {
        got.push(String(chunk));
        done();
      });
    },
  });
  return { socket, got };
}

test('a client that has ended gets the last bytes of a target that has closed, however slowly it reads', async () => {
  const reads = Promise.withResolvers<void>();
  const client = createEnd(reads.promise);
  const remote = createEnd();
  joinSockets(client.socket, remote.socket);
  client.socket.push(null);
  remote.socket.push('last');
  remote.socket.push(null);
  await once(remote.socket, 'close');
  expect(client.socket.destroyed).toBe(false);
  const closed = once(client.socket, 'close');
  reads.resolve();
  await closed;
  expect(client.got).toEqual(['last']);
});

test('a break of one end breaks the other', async () => {
  for (const at of [0, 1]) {
    const ends = [createEnd().socket, createEnd().socket] as const;
    joinSockets(...ends);
    const closed = Promise.all(ends.map((end) => once(end, 'close')));
    ends[at]?.destroy();
    await closed;
  }
});
