import { Code, ConnectError } from '@connectrpc/connect';

const prefixBytes = 5;

/** Cuts the body of a gRPC response, which comes in pieces of any size, into its messages. */
export interface FrameReader {
  /** There are no more pieces. Throws where a message is half read. */
  finish(): void;
  /** Calls back for every message that this piece ends. */
  push(piece: Buffer): void;
}

/** Told whether the message has memory of its own, or is a view of a piece which it shares with others. */
export type OnMessage = (message: Buffer, owned: boolean) => void;

/** Takes the rest of a message in parts, as they come. */
export type TakePart = (part: Buffer) => void;

/** Asked about a message that is not whole yet, with its length and its beginning. Undefined: it is to be collected. */
export type BeginParts = (size: number, beginning: Buffer) => TakePart | undefined;

export function createFrameReader(limitBytes: number, onMessage: OnMessage, beginParts?: BeginParts): FrameReader {
  const splitPrefix = Buffer.alloc(prefixBytes);
  let prefixFilled = 0;
  let message: Buffer | undefined;
  let messageFilled = 0;
  let takePart: TakePart | undefined;
  let partBytesLeft = 0;

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

  /** A message that is not whole in its first piece. */
  function begin(size: number, piece: Buffer, at: number): void {
    const beginning = piece.subarray(at);
    takePart = beginParts?.(size, beginning);
    partBytesLeft = size - beginning.length;
    if (takePart !== undefined) return;
    message = Buffer.allocUnsafeSlow(size);
    messageFilled = piece.copy(message, 0, at);
  }

  /** How much of the piece belongs to the message that is taken in parts. */
  function passOn(take: TakePart, piece: Buffer): number {
    const part = piece.length <= partBytesLeft ? piece : piece.subarray(0, partBytesLeft);
    partBytesLeft -= part.length;
    if (partBytesLeft === 0) takePart = undefined;
    take(part);
    return part.length;
  }

  function goOn(piece: Buffer): number {
    if (takePart !== undefined) return passOn(takePart, piece);
    return message === undefined ? 0 : fill(message, piece);
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
    finish() {
      if (message === undefined && takePart === undefined && prefixFilled === 0) return;
      throw new ConnectError('the stream ended inside a message', Code.InvalidArgument);
    },
    push(piece) {
      let at = goOn(piece);
      while (at < piece.length) {
        const prefix = readPrefix(piece, at);
        at = prefix.at;
        if (prefix.size === undefined) return;
        const end = at + prefix.size;
        if (end <= piece.length) onMessage(piece.subarray(at, end), false);
        else begin(prefix.size, piece, at);
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
