import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from './log.ts';

export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * `/metrics` on a port of its own, over HTTP/1.1 as scrapers speak it. It asks for no key: one would let a scraper do more
 * than read, and there is nothing here but counts.
 */
export async function serveMetrics(
  listen: { host: string; port: number },
  render: () => Promise<{ contentType: string; text: string }>,
  log: Logger,
): Promise<MetricsServer> {
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 5_000 }, (request, response) => {
    request.resume();
    if (request.method !== 'GET' || (request.url ?? '').split('?', 1)[0] !== '/metrics') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('not found; ask for /metrics\n');
      return;
    }
    render().then(
      ({ contentType, text }) => response.writeHead(200, { 'content-type': contentType }).end(text),
      (error) => {
        log.error({ err: error }, 'the metrics could not be rendered');
        response.writeHead(500).end();
      },
    );
  });
  server.maxConnections = 64;
  server.listen(listen.port, listen.host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  log.info({ port }, 'serving metrics');
  return {
    port,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
