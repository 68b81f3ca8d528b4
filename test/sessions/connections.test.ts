import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { createClient } from '@connectrpc/connect';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createClient as createAssay } from '../../clients/typescript/index.ts';
import { Health, HealthCheckResponse_ServingStatus as Status } from '../../gen/health/v1/health_pb.js';
import { type NatsProcess, startNats } from '../shared/store/nats-process.ts';
import { openHttp1, openHttp2, openRawCall } from './raw-call.ts';
import { adminKey, type RunningService, runService } from './running-service.ts';

let nats: NatsProcess;
const running: RunningService[] = [];
beforeAll(async () => {
  nats = await startNats();
});
afterEach(async () => {
  for (const service of running.splice(0)) await service.stop();
});
afterAll(() => nats.stop());

async function serve(env: Record<string, string>): Promise<RunningService> {
  const service = await runService({ nats, env });
  running.push(service);
  return service;
}
const closeOf = (session: { once(event: 'close', listener: () => void): unknown }) =>
  new Promise<void>((resolve) => session.once('close', () => resolve()));

describe('connections without a valid key', () => {
  test('that take every place keep nobody out, though they answer pings', async () => {
    const { port } = await serve({ ASSAY_LIMIT_CONNECTIONS: '40', ASSAY_LIMIT_CONNECTIONS_PER_ADDRESS: '40' });
    const idle = await Promise.all(Array.from({ length: 40 }, () => openHttp2(port)));
    const evicted = closeOf(idle[0] as never);
    const client = createAssay({ endpoint: `http://127.0.0.1:${port}`, apiKey: adminKey });
    expect((await client.server.info()).version).toBeDefined();
    await evicted;
    expect(idle.filter(({ destroyed }) => !destroyed)).toHaveLength(39);
    // The client's connection is known by now, whatever comes.
    const flood = await Promise.all(Array.from({ length: 80 }, () => openHttp2(port)));
    await client.server.info();
    await client.close();
    for (const session of [...idle, ...flood]) session.destroy();
  });

  test('are closed when they bring none in time, also when they ask for what needs none', async () => {
    const service = await serve({ ASSAY_LIMIT_UNPROVEN_SECONDS: '1' });
    const silent = await openHttp2(service.port);
    const asking = await openHttp2(service.port);
    const raw = await openHttp1(service.port);
    const check = openRawCall(asking, 'grpc.health.v1.Health/Check', { protocol: 'grpc' });
    check.stream.end(Buffer.alloc(5));
    await check.answered;
    await Promise.all([closeOf(silent), closeOf(asking), raw.closed]);
  });

  test('that watch the health are left alone', async () => {
    const service = await serve({ ASSAY_LIMIT_UNPROVEN_SECONDS: '1' });
    await service.addWorker({ heartbeatMs: 1_000 });
    const silent = await openHttp2(service.port);
    const watch = createClient(Health, service.transport(undefined)).watch({})[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
    const next = watch.next().then(
      ({ value }) => value?.status,
      () => 'broken',
    );
    await closeOf(silent);
    expect(await Promise.race([next, Promise.resolve('open')])).toBe('open');
    await service.stopService();
    expect(await next).toBe(Status.NOT_SERVING);
  });
});

describe('connections with a valid key', () => {
  test('are closed after a GOAWAY when they are idle, and their client goes on', async () => {
    const { port } = await serve({ ASSAY_LIMIT_IDLE_SECONDS: '1' });
    const client = createAssay({ endpoint: `http://127.0.0.1:${port}`, apiKey: adminKey });
    await client.server.info();
    const session = await openHttp2(port);
    const goaway = once(session, 'goaway');
    const call = openRawCall(session, 'assay.v1.ServerService/GetServerInfo', { key: adminKey, protocol: 'grpc' });
    call.stream.end(Buffer.alloc(5));
    expect(await call.told).toContain('"grpc-status":"0"');
    expect((await goaway)[0]).toBe(0);
    await closeOf(session);
    await client.server.info();
    await client.close();
  });
});

describe('one connection too many', () => {
  /** A service whose only place is taken by a call. */
  async function full(): Promise<number> {
    const service = await serve({ ASSAY_LIMIT_CONNECTIONS: '1' });
    const session = await openHttp2(service.port);
    const many = openRawCall(session, 'assay.v1.ExecutionService/ExecuteMany', { key: adminKey, protocol: 'grpc' });
    await many.answered;
    return service.port;
  }
  const sentence = /has 1 open connections, the limit/;

  test('of the TypeScript client is told so, and not that it speaks the wrong protocol', async () => {
    const endpoint = `http://127.0.0.1:${await full()}`;
    const client = createAssay({ endpoint, apiKey: adminKey, connectTimeoutMs: 500 });
    const failure = client.server.info();
    await expect(failure).rejects.toMatchObject({
      reason: 'CONNECTION_QUOTA',
      message: expect.stringMatching(sentence),
    });
    await client.close();
  });

  test('of grpc-js is told so', async () => {
    const port = await full();
    const definition = loadSync('assay/v1/server.proto', { includeDirs: ['proto'] });
    const { assay } = grpc.loadPackageDefinition(definition) as unknown as {
      assay: { v1: { ServerService: grpc.ServiceClientConstructor } };
    };
    const client = new assay.v1.ServerService(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
    const error = await new Promise<grpc.ServiceError>((resolve) => client.GetServerInfo?.({}, resolve));
    expect(error.code).toBe(grpc.status.UNAVAILABLE);
    expect(error.details).toMatch(sentence);
    client.close();
  });

  test('over HTTP/1.1 is told so', async () => {
    const response = await fetch(`http://127.0.0.1:${await full()}/assay.v1.ServerService/GetServerInfo`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ code: 'unavailable', message: expect.stringMatching(sentence) });
  });

  test('that says nothing is closed', async () => {
    const session = connectHttp2(`http://127.0.0.1:${await full()}`);
    session.on('error', () => {});
    await closeOf(session);
  });
});
