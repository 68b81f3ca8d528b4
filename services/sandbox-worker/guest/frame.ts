/** The guest's frames (guest/PROTOCOL.md): encoding of what the worker says, decoding of what it hears. */

export const secretBytes = 32;
export const inputWindowBytes = 262_144;
/** What the guest may hold unacknowledged for one stream. */
export const guestRingBytes = 1_048_576;

const headerBytes = 16;
const outputLimit = 262_144 + 8;
const controlLimit = 64;
const keepId = 0xffffffff;

export type Stream = 1 | 2;

/** What a guest says. Output arrives in pieces as they come off the socket; the rest arrives whole. */
export interface GuestFrames {
  hello(version: number, highest: bigint, secret: Buffer): void;
  state(number: bigint, stdoutAcked: number, stderrAcked: number, inputReceived: number): void;
  synced(): void;
  spawned(number: bigint, pid: number): void;
  started(number: bigint, pid: number): void;
  failed(number: bigint, step: number, errno: number): void;
  output(number: bigint, stream: Stream, offset: number, data: Buffer): void;
  inputAck(number: bigint, received: number, written: number, ended: boolean, closed: boolean): void;
  exit(number: bigint, exit: GuestExit): void;
  closed(number: bigint, stdoutBytes: number, stderrBytes: number): void;
  unknown(number: bigint): void;
  nested(nest: number, pid: number, sparePid: number): void;
  /** A program waits for input: 1 it is seen reading, 2 nothing was heard of it for a while. */
  awaiting(number: bigint, kind: number): void;
  /** A shell is open, for the given time; pid 0: it is closed for good. */
  shell(number: bigint, pid: number, opened: number): void;
}

/** How a program ended, as wait4 told the guest. */
export interface GuestExit {
  readonly status: number;
  readonly userMicros: number;
  readonly systemMicros: number;
  readonly peakKib: number;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly durationMicros: number;
  /** The shell ended with this execution, and the status is the shell's. */
  readonly shellEnded: boolean;
  /** The guest ended it, because it would not report any more. */
  readonly shellSilent: boolean;
}

/** A guest that does not keep to the protocol. */
export class GuestViolation extends Error {}

const payloadBytes: Readonly<Record<number, number>> = {
  1: 12 + secretBytes,
  2: 24,
  3: 0,
  4: 4,
  5: 4,
  6: 8,
  8: 17,
  9: 56,
  10: 16,
  11: 0,
  14: 8,
  13: 1,
  12: 8,
};

/**
 * Turns the socket's bytes into calls, at most so many of them, and returns how many bytes that took. Holds at most one
 * header or one control frame; throws GuestViolation.
 */
export type FrameDecoder = (chunk: Buffer, calls?: number) => number;

export function createFrameDecoder(frames: GuestFrames): FrameDecoder {
  const held = Buffer.alloc(headerBytes + controlLimit);
  let heldBytes = 0;
  /** Bytes of the current OUTPUT frame still to come, once its header and offset were read. */
  let outputLeft = 0;
  let outputNumber = 0n;
  let outputStream: Stream = 1;
  let outputOffset = 0;

  function wanted(): number {
    if (heldBytes < headerBytes) return headerBytes;
    const type = held[4] as number;
    const bytes = held.readUInt32LE(0);
    if (type === 7) {
      if (bytes <= 8 || bytes > outputLimit) throw new GuestViolation(`an OUTPUT frame of ${bytes} bytes`);
      return headerBytes + 8;
    }
    const expected = payloadBytes[type];
    if (expected === undefined) throw new GuestViolation(`a frame of unknown type ${type}`);
    if (bytes !== expected)
      throw new GuestViolation(`a frame of type ${type} with ${bytes} bytes, expected ${expected}`);
    return headerBytes + bytes;
  }

  return (chunk, calls = Number.POSITIVE_INFINITY) => {
    let at = 0;
    for (let left = calls; left > 0 && at < chunk.length; ) {
      if (outputLeft > 0) {
        left--;
        const piece = chunk.subarray(at, at + outputLeft);
        at += piece.length;
        outputLeft -= piece.length;
        const offset = outputOffset;
        outputOffset += piece.length;
        frames.output(outputNumber, outputStream, offset, piece);
        continue;
      }
      const take = Math.min(wanted() - heldBytes, chunk.length - at);
      chunk.copy(held, heldBytes, at, at + take);
      heldBytes += take;
      at += take;
      if (heldBytes < headerBytes || heldBytes < wanted()) continue;
      heldBytes = 0;
      if (held[4] === 7) {
        outputLeft = held.readUInt32LE(0) - 8;
        outputNumber = held.readBigUInt64LE(8);
        outputStream = readStream(held[5] as number);
        outputOffset = readOffset(held, headerBytes);
      } else {
        left--;
        deliver(held, frames);
      }
    }
    return at;
  };
}

function deliver(frame: Buffer, frames: GuestFrames): void {
  const number = frame.readBigUInt64LE(8);
  const at = headerBytes;
  switch (frame[4]) {
    case 1:
      frames.hello(
        frame.readUInt32LE(at),
        frame.readBigUInt64LE(at + 4),
        Buffer.from(frame.subarray(at + 12, at + 44)),
      );
      return;
    case 2:
      frames.state(number, readOffset(frame, at), readOffset(frame, at + 8), readOffset(frame, at + 16));
      return;
    case 3:
      frames.synced();
      return;
    case 4:
      frames.spawned(number, frame.readUInt32LE(at));
      return;
    case 5:
      frames.started(number, frame.readUInt32LE(at));
      return;
    case 6:
      frames.failed(number, frame.readUInt32LE(at), frame.readUInt32LE(at + 4));
      return;
    case 8: {
      const flags = frame[at + 16] as number;
      frames.inputAck(number, readOffset(frame, at), readOffset(frame, at + 8), (flags & 2) !== 0, (flags & 1) !== 0);
      return;
    }
    case 9:
      frames.exit(number, readExit(frame, at));
      return;
    case 10:
      frames.closed(number, readOffset(frame, at), readOffset(frame, at + 8));
      return;
    case 11:
      frames.unknown(number);
      return;
    case 12:
      frames.shell(number, frame.readUInt32LE(at), frame.readUInt32LE(at + 4));
      return;
    case 14:
      frames.nested(Number(number), frame.readUInt32LE(at), frame.readUInt32LE(at + 4));
      return;
    case 13:
      frames.awaiting(number, frame[at] as number);
      return;
  }
}

function readExit(frame: Buffer, at: number): GuestExit {
  const flags = frame.readUInt32LE(at + 52);
  return {
    status: frame.readInt32LE(at),
    userMicros: readOffset(frame, at + 4),
    systemMicros: readOffset(frame, at + 12),
    peakKib: readOffset(frame, at + 20),
    stdoutBytes: readOffset(frame, at + 28),
    stderrBytes: readOffset(frame, at + 36),
    durationMicros: readOffset(frame, at + 44),
    shellEnded: (flags & 3) !== 0,
    shellSilent: (flags & 2) !== 0,
  };
}

function readStream(value: number): Stream {
  if (value !== 1 && value !== 2) throw new GuestViolation(`an OUTPUT frame for stream ${value}`);
  return value;
}

/** Offsets are counted in doubles here: exact up to 2^53, and a guest that claims more is lying. */
function readOffset(frame: Buffer, at: number): number {
  const value = frame.readBigUInt64LE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new GuestViolation(`an offset of ${value}`);
  return Number(value);
}

function frame(type: number, number: bigint, payload: number, stream = 0): Buffer {
  const buffer = Buffer.alloc(headerBytes + payload);
  buffer.writeUInt32LE(payload, 0);
  buffer[4] = type;
  buffer[5] = stream;
  buffer.writeBigUInt64LE(number, 8);
  return buffer;
}

export function welcome(): Buffer {
  return frame(64, 0n, 0);
}

/** What the guest is to run. */
export interface StartSpec {
  /** Whether the process waits until it was placed in its cgroup. */
  readonly gated: boolean;
  /** The nest whose waiting process is to run it, which then waits for nothing. 0: none. */
  readonly nest: number;
  readonly inputOpen: boolean;
  readonly workingDirectory: string;
  readonly args: readonly (string | Uint8Array)[];
  readonly env: readonly string[];
  /** Whom to run it as, where the guest is root; else it is the guest's user. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** Present: on a terminal of this size. */
  readonly terminal?: ScreenSize | undefined;
}

export interface ScreenSize {
  readonly rows: number;
  readonly columns: number;
}

export function start(number: bigint, spec: StartSpec): Buffer {
  return startFrame(65, number, spec);
}

/** Opens a shell; without arguments the guest picks it. */
export function openShell(number: bigint, spec: StartSpec): Buffer {
  return startFrame(73, number, spec);
}

function startFrame(type: number, number: bigint, spec: StartSpec): Buffer {
  const texts = [spec.workingDirectory, ...spec.args, ...spec.env].map((text) => Buffer.from(text as string));
  const payload = 20 + texts.reduce((sum, text) => sum + 4 + text.length, 0) + (spec.terminal ? 4 : 0);
  const buffer = frame(type, number, payload);
  let at = headerBytes;
  buffer[at] = (spec.gated ? 1 : 0) | (spec.inputOpen ? 2 : 0) | (spec.nest > 0 ? 4 : 0) | (spec.terminal ? 8 : 0);
  buffer.writeUInt16LE(spec.nest, at + 2);
  buffer.writeUInt32LE(spec.user?.uid ?? keepId, at + 4);
  buffer.writeUInt32LE(spec.user?.gid ?? keepId, at + 8);
  buffer.writeUInt32LE(spec.args.length, at + 12);
  buffer.writeUInt32LE(spec.env.length, at + 16);
  at += 20;
  for (const text of texts) {
    buffer.writeUInt32LE(text.length, at);
    text.copy(buffer, at + 4);
    at += 4 + text.length;
  }
  if (spec.terminal) writeSize(buffer, at, spec.terminal);
  return buffer;
}

function writeSize(buffer: Buffer, at: number, size: ScreenSize): void {
  buffer.writeUInt16LE(size.rows, at);
  buffer.writeUInt16LE(size.columns, at + 2);
}

export function resize(number: bigint, size: ScreenSize): Buffer {
  const buffer = frame(77, number, 4);
  writeSize(buffer, headerBytes, size);
  return buffer;
}

export function go(number: bigint): Buffer {
  return frame(66, number, 0);
}

export function ack(number: bigint, stream: Stream, offset: number): Buffer {
  const buffer = frame(67, number, 8, stream);
  buffer.writeBigUInt64LE(BigInt(offset), headerBytes);
  return buffer;
}

export function input(number: bigint, offset: number, data: Uint8Array): Buffer {
  const buffer = frame(68, number, 8 + data.length);
  buffer.writeBigUInt64LE(BigInt(offset), headerBytes);
  buffer.set(data, headerBytes + 8);
  return buffer;
}

export function inputEnd(number: bigint, offset: number): Buffer {
  const buffer = frame(69, number, 8);
  buffer.writeBigUInt64LE(BigInt(offset), headerBytes);
  return buffer;
}

/** Where a start went wrong, as far as it matters to anybody but people. */
export const failedStep = { noShell: 7, shellBusy: 8, preparedGone: 9, shellEnded: 10, shellSilent: 11 } as const;

/** Whom a signal reaches. */
export const signalScope = { program: 1, group: 2, execution: 3 } as const;

export function signal(number: bigint, signo: number, scope: 1 | 2 | 3): Buffer {
  const buffer = frame(70, number, 8);
  buffer.writeUInt32LE(signo, headerBytes);
  buffer.writeUInt32LE(scope, headerBytes + 4);
  return buffer;
}

/** Asks for a process that stays in a cgroup. */
export function nest(number: number): Buffer {
  return frame(78, BigInt(number), 0);
}

/** Asks for a process in a nest before it is known what it will run. */
export function prepare(number: number): Buffer {
  return frame(72, BigInt(number), 0);
}

export function unnest(number: number): Buffer {
  return frame(79, BigInt(number), 0);
}

/** Runs a text in a shell that is idle. */
export function shellStart(number: bigint, shell: bigint, inputOpen: boolean, text: Uint8Array): Buffer {
  const buffer = frame(74, number, 16 + text.length);
  buffer[headerBytes] = inputOpen ? 2 : 0;
  buffer.writeBigUInt64LE(shell, headerBytes + 8);
  buffer.set(text, headerBytes + 16);
  return buffer;
}

export function closeShell(number: bigint): Buffer {
  return frame(75, number, 0);
}

/** Makes a shell give up the text it is in, and keep its state. */
export function interrupt(number: bigint): Buffer {
  return frame(76, number, 0);
}

export function forget(number: bigint): Buffer {
  return frame(71, number, 0);
}
