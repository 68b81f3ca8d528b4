import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurnOfLoop } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { createEgressProxy, type EgressLimits } from '../../../services/sandbox-worker/network/egress/proxy.ts';
import { type HostPattern, parseOperatorPattern } from '../../../services/shared/host-pattern.ts';
import { createWorkShares, type WorkShares } from '../../../services/shared/work-shares.ts';
import { exchange, listening } from './raw-exchange.ts';

const limits: EgressLimits = {
  ...{ connections: 32, projectConnections: 48, headBytes: 16_384, waitMs: 30_000, idleMs: 30_000 },
};
const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0)) undo();
});

/** A proxy for sessions of several projects, to which every name is this machine. `asked` has the names in the order in which they were asked for. */
function createProxy(shares: WorkShares, given: Partial<EgressLimits> = {}) {
  const asked: string[] = [];
  const accepted = { count: 0 };
  const proxy = createEgressProxy({
    limits: { ...limits, ...given },
    shares,
    closed: { why: () => undefined },
    resolve: async (host) => {
      asked.push(host);
      return ['127.0.0.1'];
    },
    upstream: () => undefined,
    log: pino({ enabled: false }),
  });
  /** Returns the port of a new session of the project. */
  const session = async (project: string): Promise<number> => {
    const { server, port } = await listening(() => accepted.count++);
    const allow = [parseOperatorPattern('*.test:*') as HostPattern];
    const gate = proxy.serve(server, { project, sessionId: `ses_${port}`, allow });
    cleanUp.push(() => gate.close());
    return port;
  };
  return { asked, accepted, session };
}

/** Shares in which nothing starts at once. */
function createWaitingShares(): WorkShares {
  return {
    turn: () => nextTurnOfLoop(),
    run: (_, work) => void nextTurnOfLoop().then(work),
    waiting: 0,
    contended: true,
  };
}

/** Shares in which nothing starts before it is let go on. */
function createHeldShares() {
  const held: (() => void)[] = [];
  const shares: WorkShares = {
    turn: () => new Promise((resolve) => held.push(resolve)),
    run: (_, work) => void held.push(work),
    get waiting() {
      return held.length;
    },
    contended: true,
  };
  return {
    shares,
    letGo: () => {
      for (const work of held.splice(0)) work();
    },
  };
}

async function target(connection: (socket: Socket) => void): Promise<number> {
  const { server, port } = await listening(connection);
  cleanUp.push(() => server.close());
  return port;
}

test('a connection of another project is served before the rest of a flood', async () => {
  // A clock that every look moves, so that a slice is a few pieces of work.
  let ms = 0;
  const shares = createWorkShares({
    sliceMs: 1,
    now: () => {
      ms += 0.25;
      return ms;
    },
  });
  const { asked, accepted, session } = createProxy(shares);
  const [flood, calm] = [await session('flood'), await session('calm')];
  const port = await target((socket) => void socket.end());
  const clients = [...Array<number>(32).fill(flood), calm].map((at) => connect(at, '127.0.0.1'));
  while (accepted.count < clients.length || shares.waiting > 0) await nextTurnOfLoop();
  const answers = clients.map((client, at) => {
    client.write(`CONNECT ${at < 32 ? 'flood' : 'calm'}.test:${port} HTTP/1.1\r\n\r\n`);
    return Array.fromAsync(client as AsyncIterable<Buffer>);
  });
  for (const answer of await Promise.all(answers))
    expect(Buffer.concat(answer).toString()).toBe('HTTP/1.1 200 Connection Established\r\n\r\n');
  expect(asked).toHaveLength(33);
  expect(asked.indexOf('calm.test')).toBeLessThan(16);
});

test.each([
  { title: 'wait for their turns', shares: createWaitingShares },
  { title: 'find the loop idle', shares: createWorkShares },
])('bytes and ends pass a tunnel whole and in order where they $title', async ({ shares }) => {
  const port = await target((socket) => void socket.pipe(socket));
  const { session } = createProxy(shares());
  const socket = connect({ port: await session('alpha'), host: '127.0.0.1', allowHalfOpen: true });
  const sent = randomBytes(4 * 1_048_576 + 1);
  socket.write(`CONNECT echo.test:${port} HTTP/1.1\r\n\r\n`);
  socket.end(sent);
  const got = Buffer.concat(await Array.fromAsync(socket as AsyncIterable<Buffer>));
  const head = 'HTTP/1.1 200 Connection Established\r\n\r\n';
  expect(got.subarray(0, head.length).toString()).toBe(head);
  expect(hash(got.subarray(head.length))).toBe(hash(sent));
});

test('a plain request and its answer pass whole where every chunk waits for its turn', async () => {
  const sent = randomBytes(1_048_576);
  let got = Buffer.alloc(0);
  const port = await target((socket) => {
    socket.on('data', (chunk) => {
      got = Buffer.concat([got, chunk]);
      if (!got.subarray(-sent.length).equals(sent)) return;
      socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${sent.length}\r\n\r\n`), sent]));
    });
  });
  const { session } = createProxy(createWaitingShares());
  const head = `PUT http://web.test:${port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${sent.length}\r\n\r\n`;
  const answer = Buffer.from(await exchange(await session('alpha'), head, sent), 'latin1');
  expect(answer.subarray(0, 15).toString()).toBe('HTTP/1.1 200 OK');
  expect(hash(answer.subarray(-sent.length))).toBe(hash(sent));
});

test('the connections of a project are limited over all of its sessions, and others have theirs', async () => {
  const port = await target((socket) => void socket.pipe(socket));
  const { session } = createProxy(createWorkShares(), { connections: 2, projectConnections: 3 });
  const sessions = [await session('alpha'), await session('alpha')] as const;
  const request = `CONNECT echo.test:${port} HTTP/1.1\r\n\r\n`;
  const held: Socket[] = [];
  for (const at of [sessions[0], sessions[0], sessions[1]]) {
    const socket = connect(at, '127.0.0.1');
    socket.write(request);
    await once(socket, 'data');
    held.push(socket);
  }
  expect(await exchange(sessions[1], request)).toContain('503 the project has 3 connections open on this worker');
  const other = connect(await session('beta'), '127.0.0.1');
  other.write(request);
  expect(String((await once(other, 'data'))[0])).toContain('200 Connection Established');
  for (const socket of [...held, other]) socket.destroy();
  const refused = 'CONNECT other.example:443 HTTP/1.1\r\n\r\n';
  await expect.poll(() => exchange(sessions[1], refused)).toContain('403 host other.example');
});

test('clients that leave before their turn are no way to make more wait', async () => {
  const { shares, letGo } = createHeldShares();
  const { session } = createProxy(shares, { connections: 2 });
  const port = await session('alpha');
  for (let index = 0; index < 4; index++) {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.destroy();
  }
  await expect.poll(() => shares.waiting).toBe(4);
  expect(await exchange(port)).toBe('');
  expect(shares.waiting).toBe(4);
  letGo();
  const answer = exchange(port, 'CONNECT other.example:443 HTTP/1.1\r\n\r\n');
  await expect.poll(() => shares.waiting).toBe(1);
  letGo();
  await expect.poll(() => shares.waiting).toBe(1);
  letGo();
  expect(await answer).toContain('403 host other.example');
});

function hash(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
