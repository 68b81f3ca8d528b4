import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { type Client, createClient } from '../../../clients/typescript/index.ts';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { reasons } from '../../../services/shared/error-reason.ts';
import { toConnectError } from '../../../services/shared/rpc-error.ts';
import { type DoubleServices, refusal, startServerDouble, unavailable } from './server-double.ts';

const sent = (error: DomainError) => toConnectError(error, () => {});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function connect(services: DoubleServices, apiKey?: string): Promise<Client> {
  const server = await startServerDouble(services);
  const client = createClient({ endpoint: server.endpoint, ...(apiKey === undefined ? {} : { apiKey }) });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  return client;
}

test('create is repeated with the same request id until a worker is there', async () => {
  const requests: string[] = [];
  const client = await connect({
    session: {
      createSession(request) {
        requests.push(request.requestId);
        if (requests.length < 3) throw unavailable();
        return { session: { sessionId: 'ses_1', state: SessionState.READY, image: request.image } };
      },
      closeSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.CLOSED } }),
    },
  });
  const session = await client.sessions.create({ image: 'img', limits: { memoryBytes: 5e9 }, ttlMs: 1500 });
  expect(requests).toHaveLength(3);
  expect(new Set(requests).size).toBe(1);
  expect(session.info).toMatchObject({ id: 'ses_1', state: 'READY', image: 'img' });
  await session[Symbol.asyncDispose]();
  expect(session.info.state).toBe('CLOSED');
});

test('a refusal is told with its reason, code and metadata', async () => {
  const client = await connect({
    session: {
      getSession() {
        throw refusal('SESSION_NOT_FOUND', Code.NotFound, { session_id: 'ses_x' });
      },
    },
  });
  await expect(client.sessions.get('ses_x')).rejects.toMatchObject({
    name: 'AssayError',
    reason: 'SESSION_NOT_FOUND',
    code: 'NOT_FOUND',
    message: 'refused: SESSION_NOT_FOUND',
    metadata: { session_id: 'ses_x' },
  });
});

test('the key travels as a bearer token with every call, without the end of its line', async () => {
  let seen: string | null = null;
  const client = await connect(
    {
      session: {
        listSessions(_, context) {
          seen = context.requestHeader.get('authorization');
          return {};
        },
      },
    },
    'assay_id_secret\n',
  );
  expect(await Array.fromAsync(client.sessions.list())).toEqual([]);
  expect(seen).toBe('Bearer assay_id_secret');
});

test('a list asks for page after page', async () => {
  const tokens: string[] = [];
  const client = await connect({
    session: {
      listSessions({ pageToken, states, labels }) {
        tokens.push(pageToken);
        expect(states).toEqual([SessionState.READY]);
        expect(labels).toEqual({ team: 'a' });
        return { sessions: [{ sessionId: `ses_${tokens.length}` }], nextPageToken: tokens.length < 3 ? 'more' : '' };
      },
    },
  });
  const sessions = await Array.fromAsync(client.sessions.list({ states: ['READY'], labels: { team: 'a' } }));
  expect(sessions.map((one) => one.id)).toEqual(['ses_1', 'ses_2', 'ses_3']);
  expect(tokens).toEqual(['', 'more', 'more']);
});

test('a signal that may have arrived is not sent twice', async () => {
  let signals = 0;
  const client = await connect({
    session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) },
    execution: {
      async *attach(_, context) {
        await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
        yield {};
      },
      signalExecution() {
        signals++;
        throw unavailable();
      },
    },
  });
  const session = await client.sessions.get('ses_1');
  const execution = session.attach('exe_1');
  await expect(execution.signal(15)).rejects.toMatchObject({ reason: 'WORKER_UNREACHABLE' });
  execution.detach();
  expect(signals).toBe(1);
});

test('a server that was never there is told soon, and by its address', async () => {
  const endpoint = 'http://127.0.0.1:1'; // a port that no other test is given
  const client = createClient({ endpoint, connectTimeoutMs: 100 });
  cleanups.push(() => client.close());
  await expect(client.server.info()).rejects.toMatchObject({
    reason: 'SERVER_UNREACHABLE',
    message: expect.stringContaining(endpoint),
  });
});

test('a server that comes back on the same port is found again by the same client', async () => {
  const services = { session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) } };
  const first = await startServerDouble(services);
  const client = createClient({ endpoint: first.endpoint });
  cleanups.push(() => client.close());
  const session = await client.sessions.get('ses_1');
  await first.stop();
  const asked = session.refresh();
  const second = await startServerDouble(services, Number(new URL(first.endpoint).port));
  cleanups.push(() => second.stop());
  await expect(asked).resolves.toMatchObject({ id: 'ses_1' });
});

test('a key that cannot be one is refused', () => {
  expect(() => createClient({ endpoint: 'http://127.0.0.1:1', apiKey: 'a b' })).toThrow(/assay_<id>_<secret>/);
});

test('an endpoint that is no address is refused with an example', () => {
  expect(() => createClient({ endpoint: 'localhost:7070' })).toThrow(/http:\/\/127\.0\.0\.1:7070/);
});

test('a call that the server closes unanswered is made again', async () => {
  let calls = 0;
  const server = http2.createServer();
  server.on('stream', (stream) => {
    stream.resume();
    stream.on('end', () => {
      if (++calls < 3) stream.close(http2.constants.NGHTTP2_NO_ERROR);
      else stream.respond({ ':status': 404 }, { endStream: true });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = createClient({ endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  cleanups.push(
    () => server.close(),
    () => client.close(),
  );
  await expect(client.server.info()).rejects.toMatchObject({ code: 'UNIMPLEMENTED' });
  expect(calls).toBe(3);
});

test('a refusal tells the fields that are not valid', async () => {
  const client = await connect({
    session: {
      getSession() {
        throw sent(new DomainError('INVALID_FIELD', 'session_id: found "x"', { field: 'session_id' }));
      },
    },
  });
  await expect(client.sessions.get('x')).rejects.toMatchObject({
    reason: 'INVALID_FIELD',
    fieldViolations: [{ field: 'session_id', description: 'session_id: found "x"' }],
    retryDelayMs: undefined,
  });
});

test('a refusal that is not tried again by itself tells the delay', async () => {
  const client = await connect({
    session: {
      createSession() {
        throw sent(new DomainError('NO_CAPACITY', 'all workers are full'));
      },
    },
  });
  const error = { reason: 'NO_CAPACITY', transient: false, retryDelayMs: 5_000, fieldViolations: [] };
  await expect(client.sessions.create({})).rejects.toMatchObject(error);
});

test('a call is not tried again before the delay that the server asked for', async () => {
  let openMs = 0;
  let early = 0;
  const client = await connect({
    session: {
      getSession() {
        const nowMs = performance.now();
        if (openMs !== 0 && nowMs >= openMs) return { session: { sessionId: 'ses_1', state: SessionState.READY } };
        if (openMs !== 0) early++;
        // Timers of node may be early by less than a millisecond.
        openMs = nowMs + delayMs - 1;
        throw sent(new DomainError('STORE_UNAVAILABLE', 'the store does not answer'));
      },
    },
  });
  const delayMs = reasons.STORE_UNAVAILABLE.retryMs;
  await expect(client.sessions.get('ses_1')).resolves.toMatchObject({ info: { state: 'READY' } });
  expect(early).toBe(0);
});

test('a delay that is longer than the client tries for is a failure at once', async () => {
  let calls = 0;
  const server = await startServerDouble({
    session: {
      getSession() {
        calls++;
        throw sent(new DomainError('RATE_LIMITED', 'too fast'));
      },
    },
  });
  cleanups.push(() => server.stop());
  const client = createClient({ endpoint: server.endpoint, connectTimeoutMs: 900, reconnectTimeoutMs: 900 });
  cleanups.push(() => client.close());
  await expect(client.sessions.get('ses_1')).rejects.toMatchObject({ reason: 'RATE_LIMITED', retryDelayMs: 1_000 });
  expect(calls).toBe(1);
});
