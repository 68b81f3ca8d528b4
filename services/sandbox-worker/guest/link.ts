import { timingSafeEqual } from 'node:crypto';
import { Socket } from 'node:net';
import type { Logger } from '../../shared/log.ts';
import { createFrameDecoder, type FrameDecoder, type GuestFrames, GuestViolation, welcome } from './frame.ts';
import { createGuestListener } from './guest-listener.ts';

/** Connections that have not shown the secret. A guest shows it at once, so the rest of the time it has is spent by others. */
const unprovenLimit = 32;
const undisturbedMs = 100;
const helloTimeoutMs = 2_000;
const readBufferBytes = 262_144;
/** The frames of a command take about a tenth of a millisecond each. */
const framesPerTurn = 8;
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
  /** Drops the connection, because what was done with it failed here: the guest connects again and repeats what it knows. */
  restart(): void;
  close(): Promise<void>;
}

/**
 * Listens where the guest will connect. Everything in the sandbox can connect too, so nothing is believed before the
 * secret was seen. Strangers push out the oldest stranger, though not before it had time to show the secret.
 */
export async function listenForGuest(
  path: () => string,
  secret: Uint8Array,
  events: LinkEvents,
  log: Logger,
  turn: () => Promise<void> | undefined = () => undefined,
): Promise<GuestLink> {
  const unproven = new Map<Socket, number>();
  const decoders = new WeakMap<Socket, FrameDecoder>();
  let guest: Socket | undefined;
  let deafUntil = 0;
  const listener = createGuestListener(path, accept, log);

  function drop(socket: Socket): void {
    unproven.delete(socket);
    socket.destroy();
  }

  function beDeaf(): void {
    deafUntil = performance.now() + recoverMs;
  }

  function adopt(socket: Socket, highest: bigint): void {
    unproven.delete(socket);
    socket.setTimeout(0);
    const previous = guest;
    guest = socket;
    listener.shut();
    for (const stranger of unproven.keys()) drop(stranger);
    if (previous !== undefined) {
      previous.destroy();
      events.disconnected();
    }
    socket.write(welcome());
    events.connected(highest);
  }

  function hasRoom(now: number): boolean {
    if (unproven.size < unprovenLimit) return true;
    const [oldest] = unproven;
    if (oldest === undefined || now - oldest[1] < undisturbedMs) return false;
    drop(oldest[0]);
    return true;
  }

  function accept(accepted: Socket): void {
    const now = performance.now();
    if (guest !== undefined || now < deafUntil || !hasRoom(now)) {
      accepted.destroy();
      return;
    }
    const socket = withReadBuffer(accepted, (chunk) => take(socket, chunk));
    unproven.set(socket, now);
    socket.setTimeout(helloTimeoutMs, () => drop(socket));
    decoders.set(socket, createFrameDecoder(only(socket)));
    socket.on('error', () => drop(socket));
    socket.on('close', () => {
      unproven.delete(socket);
      if (guest !== socket) return;
      guest = undefined;
      listener.reopen();
      events.disconnected();
    });
    socket.resume();
  }

  /** Takes a few frames in each of its turns. Returns whether all were taken; the socket is read on when they are. */
  function take(socket: Socket, chunk: Buffer, granted = false): boolean {
    let mayGoOn = granted;
    for (let at = 0; at < chunk.length && !socket.destroyed; mayGoOn = false) {
      const wait = mayGoOn ? undefined : turn();
      if (wait !== undefined) {
        const rest = chunk.subarray(at);
        void wait.then(() => take(socket, rest, true) && socket.resume());
        return false;
      }
      at += deliver(socket, chunk.subarray(at));
    }
    return true;
  }

  /** Returns how many bytes the frames had. */
  function deliver(socket: Socket, chunk: Buffer): number {
    try {
      const bytes = decoders.get(socket)?.(chunk, framesPerTurn) ?? chunk.length;
      if (guest === socket) events.delivered();
      return bytes;
    } catch (error) {
      const proven = guest === socket;
      drop(socket);
      if (!(error instanceof GuestViolation)) {
        // A full disk, for one. The guest still has what we could not take, and will say it again.
        log.error({ err: error }, 'a guest frame could not be handled; the guest has to say it again');
        beDeaf();
      } else if (proven) events.violated(error.message);
      return chunk.length;
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

  await listener.open();

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
    restart() {
      if (guest === undefined) return;
      beDeaf();
      drop(guest);
    },
    async close() {
      listener.close();
      const open = [...unproven.keys(), ...(guest === undefined ? [] : [guest])];
      await Promise.all(open.map(closed));
    },
  };
}

function uncork(socket: Socket): void {
  socket.uncork();
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve());
    socket.destroy();
  });
}

/**
 * The same connection, read into one buffer for ever: a socket that is accepted allocates for every read, and collecting
 * that costs more than handling it. Node offers the buffer to new sockets only, so the handle moves to one.
 */
function withReadBuffer(accepted: Socket, take: (chunk: Buffer) => boolean): Socket {
  const holder = accepted as Socket & { _handle: object | null };
  const handle = holder._handle;
  holder._handle = null;
  // Without its handle it is an empty shell, which the server would count as open.
  accepted.destroy();
  const buffer = Buffer.allocUnsafeSlow(readBufferBytes);
  // Where it returns false nothing is read, and so the buffer stays as it is, until the socket is resumed.
  const callback = (bytes: number) => take(buffer.subarray(0, bytes));
  return new Socket({ handle, onread: { buffer, callback } } as ConstructorParameters<typeof Socket>[0]);
}
