import { once } from 'node:events';
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { connect, type Server, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createEgressProxy, type EgressLimits } from '../../../services/sandbox-worker/network/egress/proxy.ts';
import { upstreamFrom } from '../../../services/sandbox-worker/network/egress/upstream-proxy.ts';
import { type HostPattern, parseHostPattern } from '../../../services/shared/host-pattern.ts';
import { createWorkShares } from '../../../services/shared/work-shares.ts';
import { exchange, listening } from './raw-exchange.ts';

const limits: EgressLimits = {
  connections: 4,
  projectConnections: 8,
  headBytes: 16_384,
  waitMs: 5_000,
  idleMs: 30_000,
};
const names: Record<string, string[]> = {
  'web.test': ['127.0.0.1'],
  'echo.test': ['127.0.0.1'],
  'rebound.test': ['169.254.169.254'],
  'mixed.test': ['169.254.169.254', '127.0.0.1'],
  'dead.test': ['127.0.0.1'],
};

/** What reached the stand-in for the outside. */
const seen: { method: string; url: string; headers: string[]; body: string }[] = [];
let web: HttpServer;
let webPort: number;
let echo: { server: Server; port: number };
const cleanUp: (() => void)[] = [];

beforeAll(async () => {
  web = createHttpServer(async (request, response) => {
    const chunks = await Array.fromAsync(request);
    const body = Buffer.concat(chunks as Buffer[]).toString();
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.rawHeaders, body });
    response.writeHead(200, { 'x-own': 'yes', connection: 'x-hop, close', 'x-hop': 'no' }).end(`got ${body}`);
  });
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  webPort = (web.address() as { port: number }).port;
  echo = await listening((socket) => void socket.pipe(socket));
});
afterAll(() => {
  web.close();
  echo.server.close();
});
afterEach(() => {
  seen.length = 0;
  for (const undo of cleanUp.splice(0)) undo();
});

function patterns(...texts: string[]): HostPattern[] {
  return texts.map((text) => parseHostPattern(text) as HostPattern);
}

/** A proxy for one session, with the loopback open to it in place of the outside; returns its port. */
async function proxy(
  allow: string[],
  given: Partial<EgressLimits> = {},
  env: Record<string, string> = {},
): Promise<number> {
  const { server, port } = await listening();
  const made = createEgressProxy({
    limits: { ...limits, ...given },
    closed: { why: (address) => (address === '127.0.0.1' ? undefined : 'is never reachable from a session') },
    resolve: async (host) => names[host] ?? Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' })),
    upstream: upstreamFrom(env),
    shares: createWorkShares(),
    log: pino({ enabled: false }),
  });
  const gate = made.serve(server, { project: 'alpha', sessionId: 'ses_test', allow: patterns(...allow) });
  cleanUp.push(() => gate.close());
  return port;
}

const all = (): string[] => Object.keys(names).flatMap((name) => [name, `${name}:${webPort}`, `${name}:${echo.port}`]);

describe('CONNECT', () => {
  test('a listed host is a tunnel for bytes in both directions, and an end passes through it', async () => {
    const port = await proxy(all());
    const answer = await new Promise<string>((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let got = '';
      // The first bytes may come with the request itself.
      socket.write(`CONNECT ECHO.test.:${echo.port} HTTP/1.1\r\nHost: x\r\n\r\nearly `);
      socket.once('data', () => socket.end('late'));
      socket.on('data', (chunk) => {
        got += chunk;
      });
      socket.on('end', () => resolve(got));
    });
    expect(answer).toBe('HTTP/1.1 200 Connection Established\r\n\r\nearly late');
  });

  test('a host that is not listed is refused, with its name and what to type', async () => {
    const answer = await exchange(await proxy(['web.test']), 'CONNECT other.test:443 HTTP/1.1\r\n\r\n');
    expect(answer).toMatch(
      /^HTTP\/1\.1 403 host other\.test is not on the session's allow-list; add it with --allow other\.test \(/,
    );
    expect(answer).toMatch(/\r\n\r\nhost other\.test is not on the session's allow-list; .*\n$/);
  });

  test('a port that is not listed is refused, with the port', async () => {
    const answer = await exchange(await proxy(['web.test']), 'CONNECT web.test:22 HTTP/1.1\r\n\r\n');
    expect(answer).toContain('403 host web.test:22 is not on');
    expect(answer).toContain('--allow web.test:22');
  });

  test('a listed name with a closed address is refused, with the address', async () => {
    const answer = await exchange(await proxy(all()), 'CONNECT rebound.test:443 HTTP/1.1\r\n\r\n');
    expect(answer).toContain('403 host rebound.test has the address 169.254.169.254, which is never reachable');
  });

  test('of several addresses the closed ones are passed over', async () => {
    const answer = await exchange(await proxy(all()), `CONNECT mixed.test:${webPort} HTTP/1.1\r\n\r\nbad\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 Connection Established\r\n\r\nHTTP\/1\.1 400/);
  });

  test('a name without an address, and one where nothing listens, are said to be so', async () => {
    const port = await proxy(['nowhere.test', 'dead.test:1']);
    expect(await exchange(port, 'CONNECT nowhere.test:443 HTTP/1.1\r\n\r\n')).toContain('502 host nowhere.test has no');
    const dead = await exchange(port, 'CONNECT dead.test:1 HTTP/1.1\r\n\r\n');
    expect(dead).toMatch(/502 host dead\.test could not be reached at 127\.0\.0\.1: .*ECONNREFUSED/);
  });

  test.each([
    ['127.0.0.1:443', 403],
    ['127.1:443', 403],
    ['2130706433:443', 403],
    ['0x7f000001:443', 403],
    ['0x7f.0.0.1:443', 403],
    ['127.0.0.1.:443', 403],
    ['169.254.169.254:80', 403],
    ['[::1]:443', 403],
    ['[::ffff:169.254.169.254]:80', 403],
    ['[fe80::1%25eth0]:80', 403],
    ['web.test', 400],
    ['web.test:', 400],
    ['web.test:0', 400],
    ['web.test:65536', 400],
    ['web.test:0443', 400],
    ['web.test:443:443', 400],
    ['user@web.test:443', 400],
    ['user:pass@web.test:443', 400],
    ['other.test@web.test:443', 400],
    ['web.test..:443', 400],
    ['.web.test:443', 400],
    ['web.test/:443', 400],
    ['web.test%00:443', 400],
    ['http://web.test:443', 400],
    ['*:443', 400],
    [`${'a'.repeat(300)}.test:443`, 400],
  ])('to %s is refused with %i', async (authority, status) => {
    const answer = await exchange(await proxy(all()), `CONNECT ${authority} HTTP/1.1\r\nHost: web.test\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer.split('\r\n')[0]?.length).toBeLessThan(250);
  });

  test.each([
    ['bücher.test:443'],
    ['web.test\u00ad:443'],
    ['web\t.test:443'],
    ['web.test:443\u0000'],
    ['web.test:4 43'],
  ])('to %j never gets out', async (authority) => {
    const answer = await exchange(await proxy(all()), `CONNECT ${authority} HTTP/1.1\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 40[03] /);
  });
});

describe('a plain request', () => {
  test('goes on without what belongs to the hop, under the host that was checked', async () => {
    const port = await proxy(all());
    const answer = await exchange(
      port,
      `POST http://WEB.test:${webPort}/a?b=c HTTP/1.1\r\nHost: evil.test\r\nConnection: x-secret\r\nX-Secret: 1\r\n` +
        'Proxy-Authorization: Basic xx\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: 1\r\n' +
        'Content-Length: 5\r\n\r\nhello',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(answer).toContain('x-own: yes');
    expect(answer).not.toContain('x-hop: no');
    expect(answer).toContain('got hello');
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/a?b=c', body: 'hello' });
    const text = (seen[0]?.headers ?? []).join('|').toLowerCase();
    expect(text).toContain(`host|web.test:${webPort}`);
    expect(text).toContain('x-kept|1');
    for (const gone of ['evil', 'x-secret', 'proxy-', '|te|', 'upgrade', 'keep-alive'])
      expect(text).not.toContain(gone);
  });

  test('with a chunked body is framed anew', async () => {
    const port = await proxy(all());
    const answer = await exchange(
      port,
      `PUT http://web.test:${webPort}/ HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n` +
        '3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n',
    );
    expect(answer).toContain('got abcde');
    expect(seen[0]?.body).toBe('abcde');
  });

  test.each([
    ['a length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['two lengths', 'Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd'],
    ['a length with a sign', 'Content-Length: +4\r\n\r\nabcd'],
    ['chunks by another name', 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'],
    ['chunks twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n'],
    ['a folded header', 'X-A: b\r\n c\r\n\r\n'],
    ['a space before the colon', 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n'],
    ['a bare carriage return', 'X-A: b\rX-B: c\r\n\r\n'],
    ['a bad chunk size', 'Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n'],
  ])('with %s does not get through whole', async (_, rest) => {
    const port = await proxy(all());
    const head = `POST http://web.test:${webPort}/ HTTP/1.1\r\nHost: web.test\r\n`;
    const answer = await exchange(port, `${head}${rest}`);
    expect(answer).toMatch(/^HTTP\/1\.1 (400|502) /);
    expect(seen).toEqual([]);
  });

  test('hides no second request behind it', async () => {
    const port = await proxy(all());
    const smuggled = 'GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n';
    const first = `GET http://web.test:${webPort}/one HTTP/1.1\r\nHost: web.test\r\n\r\n`;
    await exchange(port, `${first}${smuggled}${first.replace('one', 'two')}`);
    expect(seen.map(({ url }) => url)).toEqual(['/one']);
  });

  test.each([
    ['/path', 400],
    ['*', 400],
    ['https://web.test/', 400],
    ['ftp://web.test/', 400],
    ['http:///path', 400],
    ['http://user@web.test/', 400],
    ['http://web.test:99999/', 400],
    ['http://web.test/#x', 400],
    ['http://web.test\\@other.test/', 400],
    ['http://127.0.0.1/', 403],
    ['http://[::1]/', 403],
    ['http://other.test/', 403],
    ['http://web.test:81/', 403],
    ['http://rebound.test/latest/meta-data', 403],
  ])('for %s is refused with %i', async (url, status) => {
    const answer = await exchange(await proxy(all()), `GET ${url} HTTP/1.1\r\nHost: web.test\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(seen).toEqual([]);
  });
});

describe('a hostile client', () => {
  test('with a huge head gets 431', async () => {
    const port = await proxy(all());
    const line = `X-A: ${'a'.repeat(1_000)}\r\n`;
    const head = `CONNECT echo.test:${echo.port} HTTP/1.1\r\n${line.repeat(40)}\r\n`;
    expect(await exchange(port, head)).toMatch(/^HTTP\/1\.1 431 the request's head is over 16384 bytes/);
  });

  test('that sends its head drop by drop is cut off in time', async () => {
    const port = await proxy(all(), { waitMs: 300 });
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('GET http://web.test/ HTTP/1.1\r\nX-A: ');
    const drip = setInterval(() => socket.write('X'), 20);
    let got = '';
    socket.on('data', (chunk) => {
      got += chunk;
    });
    await once(socket, 'close');
    clearInterval(drip);
    expect(got).toContain("the request's head did not arrive within 300 ms");
  });

  test('that says nothing is cut off in time', async () => {
    expect(await exchange(await proxy(all(), { waitMs: 200 }))).toContain('did not arrive within 200 ms');
  });

  test('that leaves a tunnel idle loses it', async () => {
    const port = await proxy(all(), { idleMs: 200 });
    expect(await exchange(port, `CONNECT echo.test:${echo.port} HTTP/1.1\r\n\r\n`)).toContain('200 Connection');
  });

  test('with too many connections gets 503 for the next one, and room again when it closes some', async () => {
    const port = await proxy(all());
    const held: Socket[] = [];
    for (let i = 0; i < limits.connections; i += 1) {
      const socket = connect(port, '127.0.0.1');
      socket.write(`CONNECT echo.test:${echo.port} HTTP/1.1\r\n\r\n`);
      await once(socket, 'data');
      held.push(socket);
    }
    const request = 'CONNECT other.test:443 HTTP/1.1\r\n\r\n';
    expect(await exchange(port, request)).toContain('503 the session has 4 connections open');
    for (const socket of held) socket.destroy();
    await expect.poll(() => exchange(port, request)).toContain('403 host other.test');
  });

  test.each([
    ['TLS', Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/0.9', 'GET http://web.test/\r\n\r\n'],
    ['zeros', Buffer.alloc(100_000)],
    ['an unknown method', 'STEAL http://web.test/ HTTP/1.1\r\n\r\n'],
  ])('that speaks %s gets 400', async (_, bytes) => {
    expect(await exchange(await proxy(all()), bytes)).toMatch(/^HTTP\/1\.1 400 /);
    expect(seen).toEqual([]);
  });

  test('that goes away while its target is being reached leaves nothing', async () => {
    const port = await proxy(all());
    const socket = connect(port, '127.0.0.1');
    socket.end(`CONNECT echo.test:${echo.port} HTTP/1.1\r\n\r\n`);
    socket.destroy();
    await expect.poll(() => new Promise((resolve) => echo.server.getConnections((_, n) => resolve(n)))).toBe(0);
  });
});

describe("behind the worker's own proxy", () => {
  async function upstream(answer: string): Promise<{ port: number; heads: string[] }> {
    const heads: string[] = [];
    const { server, port } = await listening((socket) => {
      socket.on('error', () => {});
      socket.once('data', (chunk) => {
        heads.push(chunk.toString('latin1'));
        socket.end(answer);
      });
    });
    cleanUp.push(() => server.close());
    return { port, heads };
  }

  test('a tunnel goes through it, by name and with its credentials', async () => {
    const { port, heads } = await upstream('HTTP/1.0 200 ok\r\nX: y\r\n\r\nfrom beyond');
    const env = { HTTPS_PROXY: `http://me:p%40ss@127.0.0.1:${port}` };
    const answer = await exchange(
      await proxy(['far.test', 'web.test'], {}, env),
      'CONNECT far.test:443 HTTP/1.1\r\n\r\n',
    );
    expect(answer).toBe('HTTP/1.1 200 Connection Established\r\n\r\nfrom beyond');
    const credentials = Buffer.from('me:p@ss').toString('base64');
    const head = `CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\nProxy-Authorization: Basic ${credentials}\r\n\r\n`;
    expect(heads).toEqual([head]);
  });

  test('a plain request goes to it whole', async () => {
    const { port, heads } = await upstream('HTTP/1.1 204 none\r\nConnection: close\r\n\r\n');
    const session = await proxy(['far.test'], {}, { http_proxy: `127.0.0.1:${port}` });
    const answer = await exchange(session, 'GET http://far.test/a HTTP/1.1\r\nHost: far.test\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 204 /);
    expect(heads[0]).toMatch(/^GET http:\/\/far\.test\/a HTTP\/1\.1\r\nhost: far\.test\r\n/);
  });

  test('its refusal, its silence and its absence are told', async () => {
    const { port } = await upstream('HTTP/1.1 407 Who are you\r\n\r\n');
    const request = 'CONNECT far.test:443 HTTP/1.1\r\n\r\n';
    const denied = await exchange(await proxy(['far.test'], {}, { HTTPS_PROXY: `http://127.0.0.1:${port}` }), request);
    expect(denied).toContain('502 the worker');
    expect(denied).toContain('does not let host far.test:443 through: HTTP/1.1 407 Who are you');
    const { port: silent } = await upstream('');
    const broken = await exchange(
      await proxy(['far.test'], {}, { HTTPS_PROXY: `http://127.0.0.1:${silent}` }),
      request,
    );
    expect(broken).toContain('broke off');
    const absent = await exchange(await proxy(['far.test'], {}, { HTTPS_PROXY: 'http://127.0.0.1:1' }), request);
    expect(absent).toContain('could not be reached');
  });

  test('a host that is not listed, or has only closed addresses, does not come near it', async () => {
    const { port, heads } = await upstream('HTTP/1.1 200 ok\r\n\r\n');
    const session = await proxy(['rebound.test'], {}, { HTTPS_PROXY: `http://127.0.0.1:${port}` });
    expect(await exchange(session, 'CONNECT other.test:443 HTTP/1.1\r\n\r\n')).toContain('403 host other.test');
    expect(await exchange(session, 'CONNECT rebound.test:443 HTTP/1.1\r\n\r\n')).toContain('403 host rebound.test');
    expect(heads).toEqual([]);
  });

  test('a host in NO_PROXY is reached directly', async () => {
    const env = { HTTPS_PROXY: 'http://127.0.0.1:1', NO_PROXY: 'localhost, .test' };
    const answer = await exchange(
      await proxy(all(), {}, env),
      `GET http://web.test:${webPort}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
    );
    expect(answer).toContain('got ');
  });

  test('a proxy that is no http:// URL is an error that keeps its password', () => {
    expect(() => upstreamFrom({ HTTPS_PROXY: 'socks5://me:secret@127.0.0.1:1080' })).toThrow(
      /^(?!.*secret).*HTTPS_PROXY/,
    );
  });
});
