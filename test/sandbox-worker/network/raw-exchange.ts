import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Listens on a free port of the loopback. */
export async function listening(connection?: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const server = createServer({ allowHalfOpen: true }, connection);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: (server.address() as { port: number }).port };
}

/** Sends bytes as they are and reads all that comes until the other side hangs up. */
export async function exchange(port: number, ...parts: (string | Buffer)[]): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', () => {});
  for (const part of parts) socket.write(part);
  await Promise.race([once(socket, 'end'), once(socket, 'close')]);
  socket.destroy();
  return Buffer.concat(chunks).toString('latin1');
}
