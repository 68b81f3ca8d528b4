import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

/** Undefined: the project may go on now. Else resolves when its turn has come. */
export type Turn = () => Promise<void> | undefined;

/**
 * A connection whose every chunk waits for a turn of its project before anything is done with it. While one waits the socket
 * is not read, so its sender is slowed. A connection on which nothing moves for `idleMs` is closed.
 */
export class PacedSocket extends Duplex {
  readonly #socket: Socket;
  readonly #turn: Turn;
  /** Read and not passed on, in order; null is the end. The first of them waits for its turn. */
  readonly #waiting: (Buffer | null)[] = [];

  constructor(socket: Socket, turn: Turn, idleMs: number) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    this.#turn = turn;
    // Without a listener an error would end the worker.
    this.on('error', () => {});
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('end', () => this.#take(null));
    socket.on('error', (error) => this.destroy(error));
    // One that has ended in both directions may have chunks that wait.
    socket.on('close', () => {
      if (!socket.readableEnded || !socket.writableFinished) this.destroy();
    });
    socket.setTimeout(idleMs, () => this.destroy());
    socket.pause();
    if (socket.destroyed) this.destroy();
    else if (socket.readableEnded) this.#take(null);
  }

  /** The end needs no turn of its own, and a socket may end while it is paused. */
  #take(chunk: Buffer | null): void {
    if (this.destroyed) return;
    const isFirst = this.#waiting.length === 0;
    const turn = isFirst && chunk !== null ? this.#turn() : undefined;
    if (isFirst && turn === undefined) {
      if (!this.push(chunk)) this.#socket.pause();
      return;
    }
    this.#waiting.push(chunk);
    this.#socket.pause();
    void turn?.then(() => this.#passOn());
  }

  /** Passes on what waits for as long as the project may go on, then reads again. */
  #passOn(): void {
    let hasRoom = true;
    for (let granted = true; this.#waiting.length > 0 && !this.destroyed; granted = false) {
      const turn = granted || this.#waiting[0] === null ? undefined : this.#turn();
      if (turn !== undefined) {
        void turn.then(() => this.#passOn());
        return;
      }
      hasRoom = this.push(this.#waiting.shift());
    }
    if (hasRoom && !this.destroyed) this.#socket.resume();
  }

  override _read(): void {
    if (this.#waiting.length === 0) this.#socket.resume();
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.cork();
    chunks.forEach(({ chunk }, at) => void this.#socket.write(chunk, at === chunks.length - 1 ? done : undefined));
    this.#socket.uncork();
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#waiting.length = 0;
    this.#socket.destroy();
    done(error);
  }
}
