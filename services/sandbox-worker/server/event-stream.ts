import type { ServerHttp2Stream } from 'node:http2';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { toConnectError, toTrailers } from '../../shared/rpc-error.ts';
import { returnBuffer } from '../execution/buffer-pool.ts';
import { outputHead } from '../execution/event-frame.ts';
import type { EventSink } from '../execution/subscription.ts';

/** What may wait in the stream's own queue; past it a reader is fed from the spool. */
const queueLimitBytes = 1_048_576;

/** A gRPC response stream, framed by hand: the bytes of an output event go out as they came in. */
export interface EventStream extends EventSink {
  /** Calls back whenever there is room again. */
  onRoom(callback: () => void): void;
}

export function createEventStream(stream: ServerHttp2Stream, log: Logger): EventStream {
  let queued = 0;
  let full = false;
  let room = () => {};
  let trailers: Record<string, string> = { 'grpc-status': '0' };

  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));

  function write(buffer: Buffer, written = () => {}): void {
    if (stream.destroyed || stream.writableEnded) return;
    queued += buffer.length;
    if (queued >= queueLimitBytes) full = true;
    stream.write(buffer, () => {
      written();
      queued -= buffer.length;
      if (!full || queued > queueLimitBytes / 2) return;
      full = false;
      room();
    });
  }

  return {
    get writable() {
      return !full && !stream.destroyed;
    },
    onRoom(callback) {
      room = callback;
    },
    event: (frame) => write(frame),
    output(which, offset, data) {
      stream.cork();
      write(outputHead(which, offset, data.length));
      write(data, () => returnBuffer(data));
      stream.uncork();
    },
    end() {
      if (!stream.destroyed) stream.end();
    },
    fail(error) {
      trailers = toTrailers(toConnectError(error, (unexpected) => log.error({ err: unexpected }, 'a stream failed')));
      if (!stream.destroyed) stream.end();
    },
  };
}

/** Ends a stream that never began, with headers and trailers in one. */
export function refuse(stream: ServerHttp2Stream, error: unknown, log: Logger): void {
  if (stream.destroyed || stream.headersSent) return;
  const known = error instanceof RangeError ? new DomainError('LIMIT_EXCEEDED', error.message) : error;
  const trailers = toTrailers(toConnectError(known, (unexpected) => log.error({ err: unexpected }, 'a call failed')));
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto', ...trailers }, { endStream: true });
}
