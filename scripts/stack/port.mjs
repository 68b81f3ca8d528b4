import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whether this address can be listened on right now. */
export async function isFree(host, port) {
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

/** A free port below those that the kernel gives to outgoing connections, so that a restarted child gets it again. */
export async function freePort(host = '127.0.0.1') {
  for (let attempt = 0; attempt < 50; attempt++) {
    const port = randomInt(20_000, 32_000);
    if (await isFree(host, port)) return port;
  }
  throw new Error(`no free port on ${host} between 20000 and 32000 in 50 attempts`);
}

/** Waits until something accepts connections there, as long as that is not hopeless. */
export async function accepts(host, port, ms, hopeless) {
  const end = Date.now() + ms;
  while (Date.now() < end && !hopeless()) {
    const socket = connect({ host, port });
    const up = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (up) return true;
    await sleep(20);
  }
  return false;
}
