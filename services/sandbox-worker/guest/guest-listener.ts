import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { Logger } from '../../shared/log.ts';

/** Connections accepted in a row before the listener rests. */
const acceptedInARow = 64;
const restMs = 50;
/** After a failure to listen, such as too many open files. */
const retryMs = 1_000;

/**
 * Listens on a sandbox's socket only while a guest is missing. Every process of the sandbox can connect, in a loop if it likes: while the
 * guest is connected such a loop finds nobody and costs the worker nothing, and otherwise no more than a few connections in
 * every `restMs`.
 */
export interface GuestListener {
  /** Listens; rejects if that fails. */
  open(): Promise<void>;
  /** Listens again after `shut`; retries if that fails. */
  reopen(): void;
  /** Stops listening. Accepted connections stay. */
  shut(): void;
  /** Stops for good. */
  close(): void;
}

/** The path is asked for each time: the directory of a slot is renamed when a session takes it. */
export function createGuestListener(path: () => string, accept: (socket: Socket) => void, log: Logger): GuestListener {
  let server: Server | undefined;
  let resting: NodeJS.Timeout | undefined;
  let closed = false;

  function listen(): Promise<void> {
    let accepted = 0;
    const opened: Server = createServer({ pauseOnConnect: true }, (socket) => {
      // What the kernel had queued before the listener was shut still arrives.
      if (server !== opened) {
        socket.destroy();
        return;
      }
      accept(socket);
      accepted += 1;
      if (accepted >= acceptedInARow && server === opened) rest(restMs);
    });
    server = opened;
    return new Promise((resolve, reject) => {
      opened.once('error', reject);
      try {
        rmSync(path(), { force: true });
        opened.listen(path(), () => {
          opened.off('error', reject);
          opened.on('error', (error) => log.error({ err: error }, 'the guest socket failed to accept'));
          // The session's user connects; only the sandbox can reach the directory.
          chmodSync(path(), 0o666);
          resolve();
        });
      } catch (error) {
        reject(error);
      }
    });
  }

  function shut(): void {
    clearTimeout(resting);
    resting = undefined;
    server?.close();
    server = undefined;
  }

  function rest(milliseconds: number): void {
    shut();
    resting = setTimeout(reopen, milliseconds);
    resting.unref();
  }

  function reopen(): void {
    if (closed || server !== undefined) return;
    clearTimeout(resting);
    listen().catch((error: unknown) => {
      if (closed) return;
      log.error({ err: error }, 'listening for a guest failed; retry in a second');
      rest(retryMs);
    });
  }

  return {
    open: listen,
    reopen,
    shut,
    close() {
      closed = true;
      shut();
    },
  };
}
