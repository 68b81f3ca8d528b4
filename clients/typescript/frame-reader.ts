import { Code, ConnectError } from '@connectrpc/connect';

const prefixBytes = 5;

/** Cuts the body of a gRPC response, which comes in pieces of any size, into its messages. */
export interface FrameReader {
  /** Whether no message is half read. */
  readonly complete: boolean;
  /** Calls back for every message that this piece ends. */
  push(piece: Buffer): void;
}

/** Told whether the message has memory of its own, or is a view of a piece which it shares with others. */
export type OnMessage = (message: Buffer, owned: boolean) => void;

export function createFrameReader(limitBytes: number, onMessage: OnMessage): FrameReader {
  const splitPrefix = Buffer.alloc(prefixBytes);
  let prefixFilled = 0;
  let message: Buffer | undefined;
  let messageFilled = 0;

  /** The place after a prefix that lies whole in the piece, or in this one and those before; else the piece's end. */
  function readPrefix(piece: Buffer, at: number): { at: number; size: number | undefined } {
    if (prefixFilled === 0 && piece.length - at >= prefixBytes) {
      return { at: at + prefixBytes, size: readSize(piece, at, limitBytes) };
    }
    const copied = piece.copy(splitPrefix, prefixFilled, at, at + prefixBytes - prefixFilled);
    prefixFilled += copied;
    if (prefixFilled < prefixBytes) return { at: at + copied, size: undefined };
    prefixFilled = 0;
    return { at: at + copied, size: readSize(splitPrefix, 0, limitBytes) };
  }

  /** How much of the piece belongs to the message that was begun before it. */
  function fill(begun: Buffer, piece: Buffer): number {
    const copied = piece.copy(begun, messageFilled);
    messageFilled += copied;
    if (messageFilled === begun.length) {
      message = undefined;
      onMessage(begun, true);
    }
    return copied;
  }

  return {
    get complete() {
      return message === undefined && prefixFilled === 0;
    },
    push(piece) {
      let at = message === undefined ? 0 : fill(message, piece);
      while (at < piece.length) {
        const prefix = readPrefix(piece, at);
        at = prefix.at;
        if (prefix.size === undefined) return;
        const end = at + prefix.size;
        if (end <= piece.length) {
          onMessage(piece.subarray(at, end), false);
        } else {
          message = Buffer.allocUnsafeSlow(prefix.size);
          messageFilled = piece.copy(message, 0, at);
        }
        at = end;
      }
    },
  };
}

function readSize(bytes: Buffer, at: number, limitBytes: number): number {
  if (bytes[at] !== 0) {
    throw new ConnectError(
      `a message has the flags ${bytes[at]}; only uncompressed ones were asked for`,
      Code.Internal,
    );
  }
  const size = bytes.readUInt32BE(at + 1);
  if (size <= limitBytes) return size;
  throw new ConnectError(`a message of ${size} bytes is over the limit of ${limitBytes}`, Code.ResourceExhausted);
}
