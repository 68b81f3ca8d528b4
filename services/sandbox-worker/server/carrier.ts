import type { ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import { trailersFrame } from '../../shared/grpc-frame.ts';

/** What a stream of events travels on. */
export interface Carrier {
  /** Whether nothing can be said any more. */
  readonly gone: boolean;
  /** Sends buffers, together. Calls back once nobody looks at them any more; never where that is not sure. */
  write(buffers: readonly Buffer[], sent: () => void): void;
  end(trailers: Readonly<Record<string, string>>): void;
  /** Calls back when it was ended, by either side. */
  onClose(callback: () => void): void;
}

/** A gRPC stream. */
export function carryOnStream(stream: ServerHttp2Stream): Carrier {
  let trailers: Readonly<Record<string, string>> = {};
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => !stream.destroyed && stream.sendTrailers(trailers));
  return {
    get gone() {
      return stream.destroyed || stream.writableEnded;
    },
    write: (buffers, sent) => writeTogether(stream, buffers, sent),
    end(given) {
      trailers = given;
      if (!stream.destroyed) stream.end();
    },
    onClose: (callback) => void stream.on('close', callback),
  };
}

/** A line: a connection with one answer on it, in the frames of gRPC-Web, which ends with the connection. */
export function carryOnLine(response: ServerResponse): Carrier {
  let ended = false;
  begin(response, {});
  // The answer is known before there is anything to tell.
  response.flushHeaders();
  return {
    get gone() {
      return ended || response.destroyed;
    },
    write: (buffers, sent) => writeTogether(response, buffers, sent),
    end(trailers) {
      if (ended || response.destroyed) return;
      ended = true;
      // It is the reader's to hang up: of a connection that was closed here the kernel drops what is not read within minutes.
      response.write(trailersFrame(trailers));
    },
    onClose: (callback) => void response.on('close', callback),
  };
}

/** Ends a line that never began: its trailers are headers. */
export function refuseLine(response: ServerResponse, trailers: Readonly<Record<string, string>>): void {
  begin(response, trailers);
  response.end();
}

function begin(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  response.removeHeader('transfer-encoding');
  response.writeHead(200, { 'content-type': 'application/grpc-web+proto', connection: 'close', ...headers });
}

type Written = (error?: Error | null) => void;

function writeTogether(
  to: { cork(): void; uncork(): void; write(buffer: Buffer, written: Written): boolean },
  buffers: readonly Buffer[],
  sent: () => void,
): void {
  const last = buffers.length - 1;
  to.cork();
  buffers.forEach((buffer, index) => {
    // What was cut off in the middle may still be on its way out of the buffer.
    to.write(buffer, (error) => index === last && !error && sent());
  });
  to.uncork();
}
