import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { runDirectory } from '../run.ts';

/** The engine behind a gate: while it is closed, calls wait; while it is away, they are broken off. */
export interface GatedEngine {
  /** Its socket. */
  readonly path: string;
  close(): void;
  /** Breaks off all calls, as an engine does that ends. */
  goAway(): void;
  open(): void;
  /** Resolves with the first call that waits. */
  called(): Promise<void>;
  end(): void;
}

export async function createGatedEngine(engine: string): Promise<GatedEngine> {
  const directory = mkdtempSync(join(runDirectory(), 'engine-'));
  const path = join(directory, 'docker.sock');
  const sockets = new Set<Socket>();
  let gate = Promise.withResolvers<void>();
  let waiting = Promise.withResolvers<void>();
  let away = false;
  gate.resolve();
  /** Also a call on a connection that was there before waits. */
  async function* calls(socket: Socket): AsyncGenerator<Buffer> {
    for await (const chunk of socket) {
      waiting.resolve();
      await gate.promise;
      yield chunk;
    }
  }
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    if (away) return void socket.destroy();
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    const behind = connect({ path: engine, allowHalfOpen: true });
    behind.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.on('close', () => behind.destroy());
    behind.pipe(socket);
    pipeline(calls(socket), behind).catch(() => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    close() {
      gate = Promise.withResolvers();
      waiting = Promise.withResolvers();
    },
    goAway() {
      away = true;
      for (const socket of sockets) socket.destroy();
    },
    open() {
      away = false;
      gate.resolve();
    },
    called: () => waiting.promise,
    end() {
      for (const socket of sockets) socket.destroy();
      server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
