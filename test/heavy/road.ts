import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to the server that can be cut. */
export interface Road {
  readonly endpoint: string;
  /** Returns how many connections that were. */
  cut(): number;
  close(): void;
}

export async function openRoad(server: URL): Promise<Road> {
  const sockets = new Set<Socket>();
  const listener = createServer((near) => {
    const far = connect(Number(server.port), server.hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const cut = (): number => {
    const connections = sockets.size / 2;
    for (const socket of sockets) socket.destroy();
    return connections;
  };
  return {
    endpoint: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    cut,
    close() {
      listener.close();
      cut();
    },
  };
}
