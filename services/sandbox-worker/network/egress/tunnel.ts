import type { Socket } from 'node:net';

/** Joins two connections: bytes, ends and breaks of each reach the other. Both idle for long is an end. */
export function joinSockets(client: Socket, remote: Socket, idleMs: number): void {
  const breakBoth = (): void => {
    client.destroy();
    remote.destroy();
  };
  for (const socket of [client, remote]) {
    socket.on('error', breakBoth);
    socket.on('close', breakBoth);
    // Counted anew by what it reads and by what it writes.
    socket.setTimeout(idleMs, breakBoth);
  }
  client.pipe(remote);
  remote.pipe(client);
}
