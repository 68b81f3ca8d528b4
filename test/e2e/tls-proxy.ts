import { once } from 'node:events';
import * as http2 from 'node:http2';
import * as net from 'node:net';
import { pipeline } from 'node:stream';
import * as tls from 'node:tls';
import type { Certificate } from './certificate.ts';

/** A server with TLS in front of one without. */
export interface TlsProxy {
  readonly endpoint: string;
  readonly port: number;
  /** The paths of the calls that came, where it reads them. */
  readonly paths: readonly string[];
  /** Breaks what is open, and listens no more. */
  stop(): Promise<void>;
}

export type StartProxy = (certificate: Certificate, target: string, port?: number) => Promise<TlsProxy>;

/** Passes on what is inside the TLS, and leaves the protocol to both ends: no ALPN. */
export const startTunnel: StartProxy = (certificate, target, port = 0) => {
  const { hostname, port: targetPort } = new URL(target);
  const server = tls.createServer({ key: certificate.key, cert: certificate.cert }, (client) => {
    const upstream = net.connect(Number(targetPort), hostname);
    pipeline(client, upstream, client, () => undefined);
  });
  return listen(server, [], port);
};

/** Speaks HTTP/2 to both sides, chosen by ALPN, as nginx or Envoy would. */
export const startHttp2Proxy: StartProxy = async (certificate, target, port = 0) => {
  const paths: string[] = [];
  const upstream = http2.connect(target);
  upstream.on('error', () => undefined);
  const server = http2.createSecureServer({ key: certificate.key, cert: certificate.cert });
  server.on('session', (session) => session.on('error', () => undefined));
  server.on('stream', (stream, headers) => {
    paths.push(String(headers[':path']));
    forward(stream, upstream.request({ ...headers, ':scheme': 'http', ':authority': new URL(target).host }));
  });
  const proxy = await listen(server, paths, port);
  return {
    ...proxy,
    async stop() {
      upstream.destroy();
      await proxy.stop();
    },
  };
};

function forward(stream: http2.ServerHttp2Stream, call: http2.ClientHttp2Stream): void {
  let trailers: http2.IncomingHttpHeaders = {};
  stream.on('error', () => call.close(http2.constants.NGHTTP2_CANCEL));
  stream.on('aborted', () => call.close(http2.constants.NGHTTP2_CANCEL));
  call.on('error', () => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR));
  call.once('trailers', (found: http2.IncomingHttpHeaders) => {
    trailers = found;
  });
  call.once('response', (headers, flags) => {
    if (stream.destroyed) return;
    const alone = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    stream.respond(headers, alone ? { endStream: true } : { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers(trailers));
    if (!alone) call.pipe(stream);
  });
  stream.pipe(call);
}

async function listen(server: tls.Server | http2.Http2SecureServer, paths: string[], port: number): Promise<TlsProxy> {
  const sockets = new Set<net.Socket>();
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', () => undefined);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const bound = (server.address() as net.AddressInfo).port;
  return {
    endpoint: `https://127.0.0.1:${bound}`,
    port: bound,
    paths,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
