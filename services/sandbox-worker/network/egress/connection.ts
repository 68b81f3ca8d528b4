import { connect, type Socket } from 'node:net';

/** A connection to an address, within the time, unless the client goes away. */
export function connectTo(host: string, port: number, waitMs: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, autoSelectFamily: false, noDelay: true });
    const fail = (error: Error): void => {
      socket.destroy();
      settle();
      reject(error);
    };
    const late = setTimeout(() => fail(new Error(`no answer within ${waitMs} ms`)), waitMs);
    const abort = (): void => fail(new Error('the client went away'));
    const settle = (): void => {
      clearTimeout(late);
      signal.removeEventListener('abort', abort);
      socket.off('error', fail);
    };
    signal.addEventListener('abort', abort);
    socket.once('error', fail);
    socket.once('connect', () => {
      settle();
      // From here on its user listens too; without a listener an error would end the worker.
      socket.on('error', () => {});
      resolve(socket);
    });
    if (signal.aborted) abort();
  });
}
