import type { Server as HttpServer } from 'node:http';
import type { Http2Server } from 'node:http2';
import { createServer, type Server } from 'node:net';

const http2Preface = Buffer.from('PRI');
/** A connection that says nothing for this long is closed. */
const firstBytesMs = 10_000;
/** A peer that is silent for so long is asked by the kernel whether it is still there, which also keeps what lies between from forgetting it. */
const aliveMs = 30_000;

/** One port for two protocols: HTTP/2 with prior knowledge begins with `PRI`, which is no method of HTTP/1.1. */
export function createConnectionRouter(http1: HttpServer, http2: Http2Server, maxConnections?: number): Server {
  const server = createServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: aliveMs });
  if (maxConnections !== undefined) server.maxConnections = maxConnections;
  server.on('connection', (socket) => {
    const drop = (): void => void socket.destroy();
    socket.setTimeout(firstBytesMs, drop);
    socket.on('error', drop);
    let head: Buffer = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
      const compared = Math.min(head.length, http2Preface.length);
      const alike = head.subarray(0, compared).equals(http2Preface.subarray(0, compared));
      if (alike && compared < http2Preface.length) return;
      socket.off('data', onData);
      socket.setTimeout(0);
      socket.off('timeout', drop);
      // The bytes that were looked at go back, and the server gets the socket as if it had accepted it itself.
      socket.pause();
      socket.unshift(head);
      (alike ? http2 : http1).emit('connection', socket);
      // An HTTP/2 server has taken the handle over and reads what was put back; one for HTTP/1.1 waits for the flow.
      if (!alike) process.nextTick(() => socket.resume());
    };
    socket.on('data', onData);
  });
  return server;
}
