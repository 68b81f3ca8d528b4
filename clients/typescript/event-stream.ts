import type { ClientHttp2Stream } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { createFrameReader } from './frame-reader.ts';
import { cancel, grpcFrame, readResponse } from './grpc-response.ts';
import { decodeEvent, decodeOutputInParts, type ReceivedEvent } from './received-event.ts';

const queueLimitBytes = 1024 * 1024;
/** How long a server may take to end a call that it has said all in. */
const lingerMs = 5_000;
const largestMessageBytes = 64 * 1024 * 1024;

/** One Execute or Attach call, framed by hand: the general client spends several times the work on every piece. */
export interface EventStream {
  /** All events that came since the last time, at least one, or undefined at the end. Asking again releases them. */
  next(): Promise<readonly ReceivedEvent[] | undefined>;
  /** After the end: there is more to read, on another stream. */
  readonly more: boolean;
  /** Ends the call and drops what was not read. */
  close(): void;
  /** All that matters was read: lets the server end the call, which it is about to do. */
  leave(): void;
}

/** Sends the message as soon as the request is open. */
export function createEventStream(opening: Promise<ClientHttp2Stream>, message: Uint8Array): EventStream {
  let call: ClientHttp2Stream | undefined;
  let queue: ReceivedEvent[] = [];
  let queuedBytes = 0;
  let heldBytes = 0;
  let outcome: (() => unknown) | undefined;
  let wake: (() => void) | undefined;
  const frames = createFrameReader(
    largestMessageBytes,
    (bytes, owned) => queue.push(decodeEvent(bytes, owned)),
    (size, beginning) => decodeOutputInParts(size, beginning, (output) => queue.push(output)),
  );

  /** The first end counts. Its error is made when somebody asks: most calls end well, and a stack costs much. */
  function settle(failure: () => unknown): void {
    outcome ??= failure;
    wake?.();
  }

  function take(piece: Buffer): void {
    if (outcome !== undefined) return;
    frames.push(piece);
    queuedBytes += piece.length;
    if (queue.length === 0) return;
    wake?.();
    if (heldBytes + queuedBytes >= queueLimitBytes) call?.pause();
  }

  function begin(stream: ClientHttp2Stream): void {
    call = stream;
    readResponse(stream, {
      piece: take,
      complete() {
        frames.finish();
        settle(() => undefined);
      },
      failed: settle,
    });
    if (outcome === undefined) stream.end(grpcFrame(message));
    else cancel(stream);
  }

  opening.then(begin, (failure) => settle(() => failure));
  return {
    more: false,
    async next() {
      heldBytes = 0;
      if (queue.length === 0 && outcome === undefined) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        if (call?.isPaused()) call.resume();
        await woken;
      }
      if (queue.length === 0) {
        const failure = outcome?.();
        if (failure !== undefined) throw failure;
        return undefined;
      }
      const events = queue;
      queue = [];
      heldBytes = queuedBytes;
      queuedBytes = 0;
      return events;
    },
    close() {
      settle(() => new ConnectError('the reader left', Code.Canceled));
      queue = [];
      if (call !== undefined) cancel(call);
    },
    leave() {
      settle(() => new ConnectError('the reader left', Code.Canceled));
      queue = [];
      const left = call;
      if (left === undefined || left.closed) return;
      left.resume();
      const late = setTimeout(() => cancel(left), lingerMs).unref();
      left.once('close', () => clearTimeout(late));
    },
  };
}
