/** A second, independent reading of guest/PROTOCOL.md for the tests: the product's own codec must not check itself. */

export const type = {
  HELLO: 1,
  STATE: 2,
  SYNCED: 3,
  SPAWNED: 4,
  STARTED: 5,
  FAILED: 6,
  OUTPUT: 7,
  INPUT_ACK: 8,
  EXIT: 9,
  CLOSED: 10,
  UNKNOWN: 11,
  SHELL: 12,
  AWAITING: 13,
  NESTED: 14,
  WELCOME: 64,
  START: 65,
  GO: 66,
  ACK: 67,
  INPUT: 68,
  INPUT_END: 69,
  SIGNAL: 70,
  FORGET: 71,
  PREPARE: 72,
  OPEN_SHELL: 73,
  SHELL_START: 74,
  CLOSE_SHELL: 75,
  INTERRUPT: 76,
  RESIZE: 77,
  NEST: 78,
  UNNEST: 79,
} as const;

export interface Frame {
  readonly type: number;
  readonly stream: number;
  readonly number: number;
  readonly payload: Buffer;
}

export interface StartRequest {
  readonly argv: readonly string[];
  readonly env?: readonly string[];
  readonly cwd?: string;
  readonly gated?: boolean;
  readonly input?: boolean;
  /** The nest whose process runs it. */
  readonly nest?: number;
  /** A process that was prepared needs no GO. */
  readonly placed?: boolean;
  /** Run it on a terminal of this size. */
  readonly terminal?: { readonly rows: number; readonly columns: number };
  readonly uid?: number;
  readonly gid?: number;
}

const KEEP = 0xffffffff;

export function encodeFrame(kind: number, number: number, payload: Uint8Array = Buffer.alloc(0), stream = 0): Buffer {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(payload.length, 0);
  header.writeUInt8(kind, 4);
  header.writeUInt8(stream, 5);
  header.writeBigUInt64LE(BigInt(number), 8);
  return Buffer.concat([header, payload]);
}

export function u64(...values: number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * i);
  return bytes;
}

export function u16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt16LE(value, 2 * i);
  return bytes;
}

export function u32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt32LE(value, 4 * i);
  return bytes;
}

export function readU64(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at));
}

export function encodeStart(number: number, request: StartRequest, kind: number = type.START): Buffer {
  const env = request.env ?? ['PATH=/usr/local/bin:/usr/bin:/bin'];
  const flags =
    (request.gated ? 1 : 0) |
    (request.input ? 2 : 0) |
    (request.placed ? 4 : 0) |
    (request.terminal ? 8 : 0) |
    ((request.nest ?? 0) << 16);
  const strings = [request.cwd ?? '/', ...request.argv, ...env].flatMap((text) => {
    const bytes = Buffer.from(text);
    return [u32(bytes.length), bytes];
  });
  const size = request.terminal ? u16(request.terminal.rows, request.terminal.columns) : Buffer.alloc(0);
  const head = u32(flags, request.uid ?? KEEP, request.gid ?? KEEP, request.argv.length, env.length);
  return encodeFrame(kind, number, Buffer.concat([head, ...strings, size]));
}

export function encodeShellStart(number: number, shell: number, text: string | Uint8Array, input = false): Buffer {
  const head = Buffer.alloc(8, 0);
  head.writeUInt8(input ? 2 : 0, 0);
  return encodeFrame(type.SHELL_START, number, Buffer.concat([head, u64(shell), Buffer.from(text)]));
}

/** Calls `take` for every whole frame; keeps the rest for the next push. */
export function createFrameReader(take: (frame: Frame) => void): (chunk: Buffer) => void {
  let waiting: Buffer[] = [];
  let size = 0;
  let wanted = 16;
  return (chunk) => {
    waiting.push(chunk);
    size += chunk.length;
    if (size < wanted) return;
    let bytes = waiting.length === 1 ? chunk : Buffer.concat(waiting);
    wanted = 16;
    while (bytes.length >= 16) {
      const end = 16 + bytes.readUInt32LE(0);
      if (bytes.length < end) {
        wanted = end;
        break;
      }
      take({
        type: bytes.readUInt8(4),
        stream: bytes.readUInt8(5),
        number: readU64(bytes, 8),
        payload: bytes.subarray(16, end),
      });
      bytes = bytes.subarray(end);
    }
    waiting = bytes.length > 0 ? [bytes] : [];
    size = bytes.length;
  };
}
