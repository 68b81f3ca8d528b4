import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { ConnectError } from '@connectrpc/connect';
import { createGrpcFrameReader } from '../../shared/grpc-frame.ts';
import { toTrailers } from '../../shared/rpc-error.ts';
import { type RequestBody, requestTimeout } from '../rpc/request-body.ts';
import { discardBody, refusedBodyBytes, refusedBodyMs } from '../rpc/unread-body.ts';
import { requestTooLong, unreadable } from '../validation/field.ts';
import { unsentMemoryOf } from './unsent-memory.ts';

/** One server-streaming gRPC call, framed by hand on its HTTP/2 stream. */
export interface GrpcCall {
  readonly stream: ServerHttp2Stream;
  /** Says that the call was let in. What a call sends that was not is not read. */
  letIn(): void;
  /** The one message of the request. Rejects for none, a second one, one over a limit or late, or a client that went away. */
  readMessage(body: RequestBody): Promise<Buffer>;
  /** Sends the headers of the response, if they were not sent. */
  begin(): void;
  /** Sends frames. Calls back once nobody looks at them any more; never, where the call is cut off before they have left. */
  write(bytes: Uint8Array, sent?: () => void): void;
  /** Ends the call with the trailers of a worker. The first end counts. */
  end(status: Record<string, string>): void;
  fail(error: ConnectError): void;
  /** Whether the call was ended, by a deadline for one: nothing may be written any more. */
  readonly over: boolean;
  /** Calls back when it is over. Returns what ends that. */
  onOver(listener: () => void): () => void;
  /** How long the client waits, from `grpc-timeout`. */
  readonly timeoutMs: number | undefined;
}

/** A client that neither reads its trailers nor ends its request is let go after this, */
const lingerMs = 5_000;
/** and after what the slowest connection takes for the bytes that are left. */
const slowestBytesPerMs = 16;

export function createGrpcCall(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  requestId: string,
  patienceMs = lingerMs,
): GrpcCall {
  // Not an AbortController: making and aborting one takes 0.03 ms of every call.
  const listeners = new Set<() => void>();
  // A stream that is destroyed forgets its session.
  const memory = stream.session && unsentMemoryOf(stream.session);
  let over = false;
  let admitted = false;
  let trailers: Record<string, string> = {};
  const response = {
    ':status': 200,
    'content-type': headers['content-type'] ?? 'application/grpc',
    'x-request-id': requestId,
  };
  stream.on('wantTrailers', () => {
    if (!stream.destroyed) stream.sendTrailers(trailers);
  });
  const begin = (): void => {
    if (!stream.headersSent && !stream.destroyed) stream.respond(response, { waitForTrailers: true });
  };
  const write = (bytes: Uint8Array, sent = (): void => {}): void => {
    stream.write(bytes, (error) => (error ? memory?.hold(bytes) : sent()));
  };
  const end = (status: Record<string, string>): void => {
    if (over || stream.destroyed || stream.closed) return;
    over = true;
    for (const listener of [...listeners]) listener();
    trailers = status;
    if (stream.headersSent) stream.end();
    else stream.respond({ ...response, ...status }, { endStream: true });
    const [limitBytes, ms] = admitted ? [Number.POSITIVE_INFINITY, patienceMs] : [refusedBodyBytes, refusedBodyMs];
    // Not a close without an error, which waits for the unread data and so resets nothing: the stream would be gone here
    // and open there, and node would answer the next window of the client with empty frames for ever.
    discardBody(stream, limitBytes, ms + stream.writableLength / slowestBytesPerMs, () => stream.destroy());
  };
  return {
    stream,
    get over() {
      return over;
    },
    onOver(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    letIn() {
      admitted = true;
    },
    begin,
    write,
    end,
    fail: (error) => end(toTrailers(error)),
    readMessage: (body) => readMessage(stream, body),
    timeoutMs: parseTimeout(headers['grpc-timeout']),
  };
}

function readMessage(stream: ServerHttp2Stream, body: RequestBody): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const frames = createGrpcFrameReader(body.limitBytes);
    let message: Buffer | undefined;
    let bytes = 0;
    const timer = setTimeout(() => finish(() => reject(requestTimeout(body))), body.withinMs);
    const onData = (chunk: Buffer): void => {
      try {
        bytes += chunk.length;
        body.hold(bytes);
        const found = frames.push(chunk);
        const [first] = found;
        if (found.length > 1 || (message !== undefined && first !== undefined)) {
          throw unreadable('found more than one message', 'one');
        }
        message = first === undefined ? message : Buffer.from(first);
      } catch (error) {
        finish(() => reject(toReadingError(error, body.limitBytes)));
      }
    };
    const onEnd = (): void =>
      finish(() => {
        if (message !== undefined && frames.pending === 0) resolve(message);
        else reject(unreadable('found no whole message', 'one'));
      });
    const onClose = (): void => finish(() => reject(unreadable('the call was cancelled', 'one message')));
    const finish = (run: () => void): void => {
      clearTimeout(timer);
      body.hold(0);
      stream.off('data', onData);
      stream.off('end', onEnd);
      stream.off('close', onClose);
      run();
    };
    stream.on('data', onData);
    stream.on('end', onEnd);
    stream.on('close', onClose);
  });
}

/** What is told of a request that could not be read: a frame that is too long or compressed, or what its reader said. */
export function toReadingError(error: unknown, limitBytes: number): unknown {
  if (!(error instanceof RangeError)) return error;
  const found = /of (\d+) bytes/.exec(error.message)?.[1];
  if (found !== undefined) return requestTooLong(Number(found), limitBytes);
  return unreadable(error.message, 'a message that is not compressed');
}

const unitsMs: Readonly<Record<string, number>> = { n: 1e-6, u: 1e-3, m: 1, S: 1e3, M: 6e4, H: 3.6e6 };

/** Undefined for none, and for one that is no timeout at all: it is the client's own clock that counts. */
function parseTimeout(value: string | string[] | undefined): number | undefined {
  const found = typeof value === 'string' ? /^(\d{1,8})([HMSmun])$/.exec(value) : null;
  if (found === null) return undefined;
  return Number(found[1]) * (unitsMs[found[2] ?? ''] ?? 1);
}
