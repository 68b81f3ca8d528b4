import type { Duplex } from 'node:stream';

/** Joins two connections: bytes, ends and breaks of each reach the other. */
export function joinSockets(client: Duplex, remote: Duplex): void {
  const breakBoth = (): void => {
    client.destroy();
    remote.destroy();
  };
  for (const socket of [client, remote]) {
    socket.on('error', breakBoth);
    // One that has ended in both directions leaves the other to write what it still has.
    socket.on('close', () => {
      if (!socket.readableEnded || !socket.writableFinished) breakBoth();
    });
  }
  client.pipe(remote);
  remote.pipe(client);
}
