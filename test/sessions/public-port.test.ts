import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { createClient } from '@connectrpc/connect';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { Health, HealthCheckResponse_ServingStatus as Status } from '../../gen/health/v1/health_pb.js';
import { getPage } from '../http-page.ts';
import { openHttp1 } from './raw-call.ts';
import { reasonOf, retryMsOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

let service: RunningService;
beforeAll(async () => {
  service = await runService();
  await service.addWorker({ heartbeatMs: 1_000 });
});
afterAll(() => service.stop());

const command = { case: 'command', value: 'true' } as const;
const session = async (): Promise<string> => {
  const { sessions } = clientsOf(service.transport(adminKey));
  return (await sessions.createSession({})).session?.sessionId ?? '';
};

describe('buf curl', () => {
  const run = promisify(execFile);
  const header = `authorization: Bearer ${adminKey}`;
  const curl = async (...args: string[]) => {
    const fixed = ['curl', '--http2-prior-knowledge', '--reflect', '--reflect-header', header, '-H', header];
    return (await run('node_modules/.bin/buf', [...fixed, ...args])).stdout;
  };
  const base = () => `http://127.0.0.1:${service.port}`;

  test.each(['grpc-v1', 'grpc-v1alpha'])('finds every service by reflection %s', async (protocol) => {
    const methods = await curl('--protocol', 'grpc', '--reflect-protocol', protocol, '--list-methods', base());
    expect(methods).toContain('assay.v1.ExecutionService/Execute');
    expect(methods).toContain('assay.v1.SessionService/CreateSession');
    expect(methods).toContain('grpc.health.v1.Health/Watch');
  });

  test.each(['grpc', 'grpcweb', 'connect'])('runs a command over %s', async (protocol) => {
    const data = JSON.stringify({ sessionId: await session(), command: 'true' });
    const url = `${base()}/assay.v1.ExecutionService/Execute`;
    const text = await curl('--protocol', protocol, '-d', data, url);
    expect(text).toContain('"started"');
    expect(text).toContain(Buffer.from('hello\n').toString('base64'));
    expect(text).toContain('"finished"');
  });
});

test('a grpc-js client runs a command and reads an error with its details', async () => {
  const definition = loadSync('assay/v1/execution.proto', { includeDirs: ['proto'] });
  const { assay } = grpc.loadPackageDefinition(definition) as unknown as {
    assay: { v1: { ExecutionService: grpc.ServiceClientConstructor } };
  };
  const client = new assay.v1.ExecutionService(`127.0.0.1:${service.port}`, grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  metadata.set('authorization', `Bearer ${adminKey}`);
  metadata.set('x-request-id', 'mine');
  const execute = (request: object) => client.Execute?.(request, metadata) as grpc.ClientReadableStream<object>;

  const good = execute({ sessionId: await session(), command: 'true' });
  const answered = once(good, 'metadata');
  const events = await good.toArray();
  expect(events).toHaveLength(3);
  expect((await answered)[0].get('x-request-id')).toEqual(['mine']);

  const bad = execute({ sessionId: 'nonsense', command: 'true' });
  const error: grpc.ServiceError = await bad.toArray().then(
    () => expect.unreachable(),
    (e) => e,
  );
  expect(error.code).toBe(grpc.status.INVALID_ARGUMENT);
  expect(error.details).toContain('session_id');
  expect(error.metadata.get('grpc-status-details-bin')[0]?.toString('latin1')).toContain('INVALID_FIELD');
  client.close();
});

test('plain curl-like JSON works and the request id comes back', async () => {
  const response = await fetch(`http://127.0.0.1:${service.port}/assay.v1.ServerService/GetServerInfo`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}`, 'x-request-id': 'abc' },
    body: '{}',
  });
  expect(response.headers.get('x-request-id')).toBe('abc');
  expect(await response.json()).toMatchObject({ version: expect.any(String), limits: expect.any(Object) });
});

test('the public port shows no metrics', async () => {
  expect((await getPage(`http://127.0.0.1:${service.port}/metrics`)).status).toBe(404);
});

test('metrics count refused keys by reason', async () => {
  const refused = async () =>
    Number(/assay_errors_total\{reason="UNAUTHENTICATED"\} (\d+)/.exec(await service.metrics())?.[1] ?? 0);
  const before = await refused();
  await clientsOf(service.transport('assay_nobody_nothing'))
    .sessions.getSession({ sessionId: 'x' })
    .catch(() => {});
  expect(await refused()).toBe(before + 1);
});

test('metrics count calls by method and code, and sessions by state', async () => {
  const { sessions } = clientsOf(service.transport(adminKey));
  await sessions.getSession({ sessionId: 'nonsense' }).catch(() => {});
  await session();
  const text = await service.metrics();
  expect(text).toMatch(
    /assay_requests_total\{method="assay.v1.SessionService\/GetSession",code="invalid_argument"\} 1/,
  );
  expect(text).toMatch(/assay_sessions\{state="READY"\} [1-9]/);
  expect(text).toMatch(/assay_errors_total\{reason="INVALID_FIELD"\} [1-9]/);
  expect(text).toMatch(/assay_workers\{state="reachable"\} 1/);
  expect(text).toMatch(/assay_worker_links [01]/);
  expect(text).toContain('assay_request_duration_seconds_bucket');
});

test('health answers by service, and its watch tells at once', async () => {
  const health = createClient(Health, service.transport(undefined));
  expect((await health.check({})).status).toBe(Status.SERVING);
  expect((await health.check({ service: 'assay.v1.SessionService' })).status).toBe(Status.SERVING);
  await expect(health.check({ service: 'nobody' })).rejects.toThrow('nobody');
  const { statuses } = await health.list({});
  expect(Object.keys(statuses)).toEqual(expect.arrayContaining(['', 'assay.v1.SessionService']));
  expect(new Set(Object.values(statuses).map(({ status }) => status))).toEqual(new Set([Status.SERVING]));
  for await (const { status } of health.watch({})) {
    expect(status).toBe(Status.SERVING);
    break;
  }
});

const refusalOf = (error: unknown) => `${reasonOf(error)}, retry after ${retryMsOf(error)} ms`;

test('a key over its rate is refused and the others are not', async () => {
  // So few that a slow machine, too, makes more calls in a second.
  const strict = await runService({ nats: service.nats, env: { ASSAY_LIMIT_REQUESTS_PER_SECOND: '2' } });
  const { secret } = await strict.makeKey(Scope.AGENT);
  const [over, other] = [adminKey, secret].map((key) => clientsOf(strict.transport(key)).sessions);
  const list = (sessions = over) => sessions?.listSessions({}).then(() => 'ok', refusalOf);
  const answers = await Promise.all(Array.from({ length: 100 }, () => list()));
  expect(answers).toContain('RATE_LIMITED, retry after 1000 ms');
  expect(answers).toContain('ok');
  expect(await list(other)).toBe('ok');
  await strict.stop();
});

describe('malformed clients', () => {
  const send = async (bytes: Buffer | string, half = false): Promise<void> => {
    const socket = connect(service.port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.on('error', () => {}).on('close', resolve));
    await once(socket, 'connect');
    socket.resume();
    socket.write(bytes);
    if (half) socket.destroy();
    else socket.end();
    await closed;
  };
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const rows: [string, () => Buffer | string][] = [
    ['garbage', () => randomBytes(100_000)],
    ['a preface and garbage', () => Buffer.concat([preface, randomBytes(100_000)])],
    ['half a preface', () => 'PRI * HT'],
    ['a preface and nothing', () => preface],
    ['giant headers', () => `GET / HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(200_000)}\r\n\r\n`],
    ['no host', () => 'POST /assay.v1.ServerService/GetServerInfo HTTP/1.0\r\ncontent-length: 0\r\n\r\n'],
    [
      'a bad host',
      () => 'POST /assay.v1.ServerService/GetServerInfo HTTP/1.1\r\nhost: a b<>\r\ncontent-length: 0\r\n\r\n',
    ],
    [
      'a bad length',
      () => 'POST /assay.v1.ServerService/GetServerInfo HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n',
    ],
    [
      'an unfinished body',
      () => 'POST /assay.v1.ServerService/GetServerInfo HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\nx',
    ],
  ];
  test.each(rows)('that send %s do no harm', async (_title, bytes) => {
    await send(bytes());
    await send(bytes(), true);
    const health = createClient(Health, service.transport(undefined));
    expect((await health.check({})).status).toBe(Status.SERVING);
  });
});

describe('a request that is no HTTP/1.1', () => {
  const call = 'POST /assay.v1.ServerService/GetServerInfo HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n';
  const rows: [string, string, string][] = [
    ['a 0x7f in a header', `${call}x-mine: a\x7fb\r\n\r\n`, 'HTTP/1.1 400 Bad Request'],
    ['a control character in a header', `${call}x-mine: a\x01b\r\n\r\n`, 'HTTP/1.1 400 Bad Request'],
    ['a space in the name of a header', `${call}x mine: a\r\n\r\n`, 'HTTP/1.1 400 Bad Request'],
    [
      'headers without an end',
      `${call}x-mine: ${'a'.repeat(200_000)}\r\n\r\n`,
      'HTTP/1.1 431 Request Header Fields Too Large',
    ],
  ];
  test.each(rows)('for %s, is told so, and its connection is closed', async (_title, bytes, status) => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(bytes, 'latin1');
    const [head = '', body] = (await closed).split('\r\n\r\n');
    expect(head.split('\r\n')[0]).toBe(status);
    expect(head).toContain('connection: close');
    expect(body).toContain('the request cannot be read: Parse Error: ');
  });

  const post = (path: string, head: string) =>
    `POST /assay.v1.ServerService/${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminKey}\r\ncontent-type: application/json\r\n${head}\r\n\r\n`;

  test.each([
    ['garbage', '\x01\x02 garbage\r\n\r\n'],
    ['more than its length', '}}'],
  ])('that follows a whole call, with %s, leaves that call its answer', async (_title, bytes) => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(`${post('GetServerInfo', 'content-length: 2')}{}${bytes}`, 'latin1');
    const said = await closed;
    expect(said).toMatch(/^HTTP\/1\.1 200/);
    expect(said).toContain('"limits"');
  });

  test('in the middle of a body is told so', async () => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(`${post('GetServerInfo', 'transfer-encoding: chunked')}2\r\n{}\r\nZZZ\r\n`);
    expect(await closed).toMatch(/^HTTP\/1\.1 400/);
  });

  test('cuts the connection off where an earlier request has no whole answer', async () => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(`POST /assay.v1.ServerService/GetServerInfo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n`);
    socket.write('{}');
    socket.write(`       ${call}x-mine: a\x7fb\r\n\r\n`, 'latin1');
    expect((await closed).match(/HTTP\/1\.1/g)?.length ?? 0).toBeLessThan(2);
  });

  test('costs a call over HTTP/2 only that header', async () => {
    // Node's client would not send it: HPACK, a literal name and a literal value.
    const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
      const head = Buffer.alloc(9);
      head.writeUIntBE(payload.length, 0, 3);
      head.writeUInt8(type, 3);
      head.writeUInt8(flags, 4);
      head.writeUInt32BE(stream, 5);
      return Buffer.concat([head, payload]);
    };
    const literal = (name: string, value: string): Buffer =>
      Buffer.concat([
        Buffer.from([0, name.length]),
        Buffer.from(name),
        Buffer.from([value.length]),
        Buffer.from(value),
      ]);
    const headers = [
      literal(':method', 'GET'),
      literal(':path', '/livez'),
      literal(':scheme', 'http'),
      literal(':authority', 'x'),
      literal('x-mine', 'a\x7fb'),
    ];
    const [settings, request, endOfBoth] = [4, 1, 5];
    const socket = connect(service.port, '127.0.0.1');
    const answered = new Promise<string>((resolve) => {
      let said = '';
      socket.setEncoding('latin1').on('data', (text: string) => {
        said += text;
        if (said.includes('ok')) resolve(said);
      });
      socket.once('close', () => resolve(said));
    });
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    socket.write(
      Buffer.concat([frame(settings, 0, 0, Buffer.alloc(0)), frame(request, endOfBoth, 1, Buffer.concat(headers))]),
    );
    expect(await answered).toContain('ok');
    socket.destroy();
  });
});

test('closing ends streams with SHUTTING_DOWN, tells health watchers and refuses connections', async () => {
  const other = await runService({ nats: service.nats });
  const worker = await other.addWorker({ workerId: 'worker-9', heartbeatMs: 1_000 });
  await worker.register({ capacity: 10_000 });
  worker.execute = (_request, stream) => stream.event({ case: 'heartbeat', value: {} as never });
  const api = clientsOf(other.transport(adminKey));
  const roomy = async () =>
    (await api.workers.listWorkers({})).workers.some(({ sessionCapacity }) => sessionCapacity === 10_000);
  await expect.poll(roomy).toBe(true);
  const sessionId = (await api.sessions.createSession({})).session?.sessionId ?? '';
  const follow = async (protocol: 'grpc' | 'connect', begun: () => void): Promise<unknown> => {
    try {
      const { executions } = clientsOf(other.transport(adminKey, protocol));
      for await (const _ of executions.execute({ sessionId, program: command })) begun();
      return 'ended';
    } catch (error) {
      return reasonOf(error);
    }
  };
  const states: Status[] = [];
  const watching = (async () => {
    const health = createClient(Health, other.transport(undefined));
    for await (const { status } of health.watch({})) states.push(status);
  })().catch(() => {});
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const follows = [follow('grpc', begun[0].resolve), follow('connect', begun[1].resolve)];
  await Promise.all(begun.map(({ promise }) => promise));
  await expect.poll(() => states.length).toBe(1);
  await other.stopService();
  expect(await Promise.all(follows)).toEqual(['SHUTTING_DOWN', 'SHUTTING_DOWN']);
  await watching;
  expect(states).toEqual([Status.SERVING, Status.NOT_SERVING]);
  const late = connect(other.port, '127.0.0.1');
  const [refused] = await once(late, 'error');
  expect(refused.code).toBe('ECONNREFUSED');
  await other.stop();
});

describe('a request that the framework refuses before any handler', () => {
  const path = '/assay.v1.SessionService/CreateSession';
  const send = async (init: RequestInit, to = path) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${adminKey}`, ...init.headers };
    const response = await fetch(`http://127.0.0.1:${service.port}${to}`, { ...init, headers });
    return { status: response.status, headers: response.headers, body: (await response.json()) as { message: string } };
  };

  test('is told that a call is a POST, and how to make one', async () => {
    const { status, headers, body } = await send({ method: 'GET' });
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
    expect(body.message).toContain('method: found GET, expected POST; type: curl ');
    expect(body.message).toContain(path);
  });

  test('is told which content types there are', async () => {
    const { status, body } = await send({ method: 'POST', body: '{}', headers: { 'content-type': 'text/yaml' } });
    expect(status).toBe(415);
    expect(body.message).toContain('content-type: found text/yaml, expected application/json');
    const execute = '/assay.v1.ExecutionService/Execute';
    const streamed = await send({ method: 'POST', body: '{}' }, execute);
    expect(streamed.status).toBe(415);
    expect(streamed.body.message).toContain('found application/json, expected application/connect+json');
  });

  test.each([
    ['ttll', '{"ttll":"60s"}'],
    ['memory', '{"limits":{"memory":"1"}}'],
  ])('is told that JSON has no field %s', async (field, json) => {
    const { status, body } = await send({ method: 'POST', body: json });
    expect(status).toBe(400);
    expect(body).toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(`key "${field}" is unknown`),
    });
    expect(Buffer.from(JSON.stringify(body)).toString()).toContain('"details"');
  });
});
