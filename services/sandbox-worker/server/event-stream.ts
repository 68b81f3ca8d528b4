import type { ServerHttp2Stream } from 'node:http2';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { toConnectError, toTrailers } from '../../shared/rpc-error.ts';
import { returnBuffer } from '../execution/buffer-pool.ts';
import { outputHead } from '../execution/event-frame.ts';
import type { EventSink } from '../execution/subscription.ts';
import type { Carrier } from './carrier.ts';

/** What may wait in the carrier's own queue; past it a reader is fed from the spool. */
const queueLimitBytes = 1_048_576;

/** Events on their way to a reader, framed by hand: the bytes of an output event go out as they came in. */
export interface EventStream extends EventSink {
  /** Calls back whenever there is room again. */
  onRoom(callback: () => void): void;
}

export function createEventStream(carrier: Carrier, log: Logger): EventStream {
  let queued = 0;
  let full = false;
  let room = () => {};

  function write(buffers: readonly Buffer[], sent = () => {}): void {
    if (carrier.gone) return;
    const bytes = buffers.reduce((sum, { length }) => sum + length, 0);
    queued += bytes;
    if (queued >= queueLimitBytes) full = true;
    carrier.write(buffers, () => {
      sent();
      queued -= bytes;
      if (!full || queued > queueLimitBytes / 2) return;
      full = false;
      room();
    });
  }

  return {
    get writable() {
      return !full && !carrier.gone;
    },
    onRoom(callback) {
      room = callback;
    },
    event: (frame) => write([frame]),
    output: (which, offset, data) => write([outputHead(which, offset, data.length), data], () => returnBuffer(data)),
    end: () => carrier.end({ 'grpc-status': '0' }),
    fail: (error) => carrier.end(trailersOf(error, log)),
  };
}

/** Ends a stream that never began, with headers and trailers in one. */
export function refuse(stream: ServerHttp2Stream, error: unknown, log: Logger): void {
  if (stream.destroyed || stream.headersSent) return;
  const headers = { ':status': 200, 'content-type': 'application/grpc+proto', ...trailersOf(error, log) };
  stream.respond(headers, { endStream: true });
}

export function trailersOf(error: unknown, log: Logger): Record<string, string> {
  const known = error instanceof RangeError ? new DomainError('LIMIT_EXCEEDED', error.message) : error;
  return toTrailers(toConnectError(known, (unexpected) => log.error({ err: unexpected }, 'a call failed')));
}
