import { timingSafeEqual } from 'node:crypto';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, Socket } from 'node:net';
import type { Logger } from '../../shared/log.ts';
import { createFrameDecoder, type GuestFrames, GuestViolation, welcome } from './frame.ts';

const unprovenLimit = 8;
const helloTimeoutMs = 2_000;
const readBufferBytes = 262_144;
/** A guest that lets this much pile up does not read its socket. */
const unreadLimitBytes = 16 * 1_048_576;
/** How long nobody is listened to after an error of our own, so that a guest that repeats itself does not keep us busy. */
const recoverMs = 1_000;

/** What the link tells its sandbox beside the guest's frames. */
export interface LinkEvents extends Omit<GuestFrames, 'hello'> {
  /** A guest proved itself. What was known of an earlier connection is void. */
  connected(highest: bigint): void;
  disconnected(): void;
  /** The guest broke the protocol; the connection is gone. */
  violated(reason: string): void;
  /** All frames of one read were delivered: a good moment to send what they asked for. */
  delivered(): void;
}

/** The worker's end of one sandbox's socket. */
export interface GuestLink {
  readonly connected: boolean;
  /** Sends a frame if a guest is connected. What is lost with a connection is said again after the next. */
  send(frame: Buffer): void;
  close(): Promise<void>;
}

/**
 * Listens where the guest will connect. Everything in the sandbox can connect too, so nothing is believed before the
 * secret was seen; strangers only push out the oldest stranger.
 */
export async function listenForGuest(
  path: string,
  secret: Uint8Array,
  events: LinkEvents,
  log: Logger,
): Promise<GuestLink> {
  const unproven = new Set<Socket>();
  const decoders = new WeakMap<Socket, (chunk: Buffer) => void>();
  let guest: Socket | undefined;
  let deafUntil = 0;

  function drop(socket: Socket): void {
    unproven.delete(socket);
    socket.destroy();
  }

  function adopt(socket: Socket, highest: bigint): void {
    unproven.delete(socket);
    socket.setTimeout(0);
    const previous = guest;
    guest = socket;
    if (previous !== undefined) {
      previous.destroy();
      events.disconnected();
    }
    socket.write(welcome());
    events.connected(highest);
  }

  function accept(accepted: Socket): void {
    if (performance.now() < deafUntil) {
      accepted.destroy();
      return;
    }
    const socket = withReadBuffer(accepted, (chunk) => take(socket, chunk));
    if (unproven.size >= unprovenLimit) drop(unproven.values().next().value as Socket);
    unproven.add(socket);
    socket.setTimeout(helloTimeoutMs, () => drop(socket));
    decoders.set(socket, createFrameDecoder(only(socket)));
    socket.on('error', () => drop(socket));
    socket.on('close', () => {
      unproven.delete(socket);
      if (guest !== socket) return;
      guest = undefined;
      events.disconnected();
    });
    socket.resume();
  }

  function take(socket: Socket, chunk: Buffer): void {
    try {
      decoders.get(socket)?.(chunk);
      if (guest === socket) events.delivered();
    } catch (error) {
      const proven = guest === socket;
      drop(socket);
      if (!(error instanceof GuestViolation)) {
        // A full disk, for one. The guest still has what we could not take, and will say it again.
        log.error({ err: error }, 'a guest frame could not be handled; the guest has to say it again');
        deafUntil = performance.now() + recoverMs;
      } else if (proven) events.violated(error.message);
    }
  }

  /** The frames of one socket: HELLO first and once, the rest only from the proven guest. */
  function only(socket: Socket): GuestFrames {
    const proven =
      <Args extends unknown[]>(deliver: (...args: Args) => void) =>
      (...args: Args): void => {
        if (guest !== socket) throw new GuestViolation('a frame before HELLO');
        deliver(...args);
      };
    return {
      hello(version, highest, given) {
        if (guest === socket) throw new GuestViolation('a second HELLO');
        if (version !== 1) throw new GuestViolation(`protocol version ${version}, expected 1`);
        if (!timingSafeEqual(given, secret)) {
          log.warn('a process that is not the guest connected to the guest socket');
          throw new GuestViolation('a wrong secret');
        }
        adopt(socket, highest);
      },
      state: proven(events.state),
      synced: proven(events.synced),
      spawned: proven(events.spawned),
      started: proven(events.started),
      failed: proven(events.failed),
      output: proven(events.output),
      inputAck: proven(events.inputAck),
      exit: proven(events.exit),
      closed: proven(events.closed),
      unknown: proven(events.unknown),
      nested: proven(events.nested),
      awaiting: proven(events.awaiting),
      shell: proven(events.shell),
    };
  }

  rmSync(path, { force: true });
  const server = createServer({ pauseOnConnect: true }, accept);
  await listening(server, path);
  // The session's user connects; only the sandbox can reach the directory.
  chmodSync(path, 0o666);

  return {
    get connected() {
      return guest !== undefined;
    },
    send(frame) {
      if (guest === undefined) return;
      // What one turn of the event loop has to say leaves in one write.
      if (guest.writableCorked === 0) {
        guest.cork();
        process.nextTick(uncork, guest);
      }
      guest.write(frame);
      if (guest.writableLength <= unreadLimitBytes) return;
      drop(guest);
      events.violated('the guest does not read what it is sent');
    },
    close() {
      for (const socket of unproven) socket.destroy();
      guest?.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function uncork(socket: Socket): void {
  socket.uncork();
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/**
 * The same connection, read into one buffer for ever: a socket that is accepted allocates for every read, and collecting
 * that costs more than handling it. Node offers the buffer to new sockets only, so the handle moves to one.
 */
function withReadBuffer(accepted: Socket, take: (chunk: Buffer) => void): Socket {
  const holder = accepted as Socket & { _handle: object | null };
  const handle = holder._handle;
  holder._handle = null;
  // Without its handle it is an empty shell, which the server would count as open.
  accepted.destroy();
  const buffer = Buffer.allocUnsafeSlow(readBufferBytes);
  const callback = (bytes: number) => {
    take(buffer.subarray(0, bytes));
    return true;
  };
  return new Socket({ handle, onread: { buffer, callback } } as ConstructorParameters<typeof Socket>[0]);
}
