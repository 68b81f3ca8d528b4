import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { grpcPrefix } from '../../services/shared/grpc-frame.ts';
import { openHttp1, openHttp2, openRawCall } from './raw-call.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';

const mebibyte = 1_048_576;
const unary = 'assay.v1.SessionService/GetSession';
const streaming = 'assay.v1.ExecutionService/Execute';
const many = 'assay.v1.ExecutionService/ExecuteMany';
const wrongKey = 'assay_nobody_0123456789abcdef0123456789abcdef';
const protocols: Protocol[] = ['grpc', 'connect', 'grpc-web'];

let service: RunningService;
beforeAll(async () => {
  service = await runService({
    env: {
      ASSAY_LIMIT_DENIALS_PER_SECOND: '100000',
      ASSAY_LIMIT_REQUEST_SECONDS: '1',
      ASSAY_LIMIT_KEYLESS_STREAMS_PER_ADDRESS: '3',
      ASSAY_LIMIT_UNFINISHED_BYTES_PER_KEY: String(2 * mebibyte),
    },
  });
  await service.addWorker({ heartbeatMs: 1_000 });
});
afterAll(() => service.stop());

describe('without a valid key', () => {
  test.each(protocols.flatMap((protocol) => [unary, streaming, many].map((method) => [protocol, method] as const)))(
    'a call over %s to %s is refused before its request has come, and its stream is closed',
    async (protocol, method) => {
      const session = await openHttp2(service.port);
      // Connect has another content type for streams.
      const headers: Record<string, string> =
        protocol === 'connect' && method !== unary ? { 'content-type': 'application/connect+proto' } : {};
      const call = openRawCall(session, method, { key: wrongKey, protocol, headers });
      call.stream.write(Buffer.alloc(1_000));
      await call.answered;
      call.stream.write(Buffer.alloc(2 * mebibyte));
      expect(await call.told).toMatch(/UNAUTHENTICATED|unauthenticated|"grpc-status":"16"|grpc-status: 16/);
      session.destroy();
    },
  );

  test('300 calls on one connection have next to nothing of their requests read', async () => {
    const session = await openHttp2(service.port);
    const calls = Array.from({ length: 300 }, () => {
      const call = openRawCall(session, unary, { key: wrongKey, protocol: 'connect' });
      call.stream.write(Buffer.alloc(3 * mebibyte));
      return call;
    });
    const told = await Promise.all(calls.map(({ told }) => told));
    expect(told.filter((text) => text.includes('"unauthenticated"'))).toHaveLength(300);
    // A stream may send 64 KiB before it is heard, and as much is thrown away.
    expect(session.socket.bytesWritten).toBeLessThan(300 * 3 * 65_536);
    session.destroy();
  });

  test('a call over HTTP/1.1 is refused before its request has come, and its connection is closed', async () => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(
      `POST /${unary} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n` +
        `authorization: Bearer ${wrongKey}\r\ncontent-length: ${3 * mebibyte}\r\n\r\n{`,
    );
    const answer = await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toContain('"unauthenticated"');
  });

  test.each(protocols)('a client library over %s that sends much is told why', async (protocol) => {
    const { executions } = clientsOf(service.transport(wrongKey, protocol));
    const data = new Uint8Array(mebibyte);
    const refused = executions.writeInput({ sessionId: 'x', executionId: 'x', data });
    await expect(refused.catch(reasonOf)).resolves.toBe('UNAUTHENTICATED');
  });
});

describe('what needs no key', () => {
  const check = 'grpc.health.v1.Health/Check';

  test.each(protocols)('is asked in a few words over %s, or refused', async (protocol) => {
    const session = await openHttp2(service.port);
    const call = openRawCall(session, check, { protocol });
    call.stream.write(Buffer.concat([grpcPrefix(mebibyte), Buffer.alloc(10_000)]));
    await call.answered;
    call.stream.write(Buffer.alloc(2 * mebibyte));
    expect(await call.told).toMatch(/LIMIT_EXCEEDED|the limit is 4096/);
    session.destroy();
  });

  test('is watched by so many streams of an address', async () => {
    const session = await openHttp2(service.port);
    const watches = Array.from({ length: 4 }, () => {
      const call = openRawCall(session, 'grpc.health.v1.Health/Watch', { protocol: 'grpc' });
      call.stream.end(Buffer.alloc(5));
      return call;
    });
    const refused = await Promise.race(watches.map(({ told }) => told));
    expect(refused).toContain('ASSAY_LIMIT_KEYLESS_STREAMS_PER_ADDRESS');
    watches[0]?.stream.close();
    watches[1]?.stream.close();
    await Promise.all([watches[0]?.closed, watches[1]?.closed]);
    const again = openRawCall(session, 'grpc.health.v1.Health/Watch', { protocol: 'grpc' });
    again.stream.end(Buffer.alloc(5));
    expect(await again.answered).not.toHaveProperty('grpc-status');
    session.destroy();
  });

  test.each(['/livez', '/nothing'])('the page %s is answered, and the body of who asks is not read', async (path) => {
    const session = await openHttp2(service.port);
    const stream = session.request({ ':method': 'GET', ':path': path }, { endStream: false });
    stream.on('error', () => {});
    const closed = new Promise<void>((resolve) => stream.once('close', () => resolve()));
    stream.resume();
    stream.write(Buffer.alloc(2 * mebibyte));
    await closed;
    session.destroy();
  });
});

describe('with a valid key', () => {
  const frame = (bytes: number, sent: number) => Buffer.concat([grpcPrefix(bytes), Buffer.alloc(sent)]);

  // Side by side, since each waits for a second.
  const ways = protocols.flatMap((protocol) => [unary, streaming, many].map((method) => [protocol, method] as const));
  test.concurrent.each(ways)(
    'a request over %s to %s that does not become whole is refused in time',
    async (protocol, method) => {
      const session = await openHttp2(service.port);
      const headers: Record<string, string> =
        protocol === 'connect' && method !== unary ? { 'content-type': 'application/connect+proto' } : {};
      const call = openRawCall(session, method, { key: adminKey, protocol, headers });
      call.stream.write(frame(1_000, 10));
      call.stream.once('end', () => call.stream.end());
      expect(await call.told).toMatch(/REQUEST_TIMEOUT|not arrived whole/);
      session.destroy();
    },
  );

  test.concurrent('a request over HTTP/1.1 that does not become whole is refused in time', async () => {
    const { socket, closed } = await openHttp1(service.port);
    socket.write(
      `POST /${unary} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n` +
        `authorization: Bearer ${adminKey}\r\ncontent-length: 500\r\n\r\n{`,
    );
    expect(await closed).toMatch(/^HTTP\/1\.1 504 [\s\S]*not arrived whole/);
  });

  test.each(protocols)('unfinished requests over %s hold no more than the key may', async (protocol) => {
    const { secret } = await service.makeKey(Scope.AGENT);
    const session = await openHttp2(service.port);
    // The connection is known as soon as one call was let in.
    const calls = Array.from({ length: 4 }, () => openRawCall(session, unary, { key: secret, protocol }));
    for (const { stream } of calls) stream.write(frame(mebibyte, mebibyte - 10));
    const told = await Promise.all(
      calls.map(({ answered, stream, told }) => answered.then(() => stream.end()).then(() => told)),
    );
    expect(told.filter((text) => /REQUEST_QUOTA|unfinished requests/.test(text)).length).toBeGreaterThan(0);
    // What was held is given back.
    const { sessions } = clientsOf(service.transport(secret, protocol));
    await sessions.listSessions({ labels: { pad: 'x'.repeat(200) } });
    session.destroy();
  });
});
