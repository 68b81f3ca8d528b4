import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ExecuteRequestSchema, ExecuteResponseSchema, type ExecutionEvent } from '../../gen/assay/v1/execution_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { createGrpcFrameReader, grpcFrame } from '../../services/shared/grpc-frame.ts';
import { metadataOf, reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { DoubleStream, WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let sessionId: string;
let greet: WorkerDouble['execute'];
let unread: { connection: ClientHttp2Session; stream: ClientHttp2Stream };

beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_STREAMS_PER_KEY: '3' } });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  greet = worker.execute;
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
  unread = await startUnread();
});
afterAll(async () => {
  unread?.connection.destroy();
  await service.stop();
});
beforeEach(() => {
  worker.execute = greet;
});

type Api = ReturnType<typeof clientsOf>;
type Event = ExecutionEvent['event'];
const command = { case: 'command', value: 'true' } as const;
const event = (value: unknown) => value as Event;
const started = event({ case: 'started', value: { executionId: 'x' } });
const finished = event({ case: 'finished', value: { result: { reason: 1, exitCode: 0 } } });
const output = (data: Buffer, offset: number) => event({ case: 'stdout', value: { offset: BigInt(offset), data } });

/** A call of a client that reads nothing. It is let go some seconds after its end, in which the other tests run. */
async function startUnread(): Promise<typeof unread> {
  const { secret } = await service.makeKey(Scope.AGENT);
  const connection = connect(`http://127.0.0.1:${service.port}`, { settings: { initialWindowSize: 1 } });
  const stream = connection.request({
    ':method': 'POST',
    ':path': '/assay.v1.ExecutionService/Execute',
    'content-type': 'application/grpc',
    'grpc-timeout': '200m',
    te: 'trailers',
    authorization: `Bearer ${secret}`,
  });
  stream.on('error', () => {});
  worker.execute = (_request, events) => events.event(started);
  const request = create(ExecuteRequestSchema, { sessionId, program: command });
  stream.end(grpcFrame(toBinary(ExecuteRequestSchema, request)));
  await once(stream, 'response');
  return { connection, stream };
}

async function run(api: Api, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<Event['case'][]> {
  const seen: Event['case'][] = [];
  for await (const response of api.executions.execute({ sessionId, program: command }, options)) {
    seen.push(response.event?.event.case);
  }
  return seen;
}

const ways: [Protocol, '1.1' | '2'][] = [
  ['grpc', '2'],
  ['connect', '2'],
  ['connect', '1.1'],
  ['grpc-web', '1.1'],
];

describe.each(ways)('over %s on HTTP/%s', (protocol, httpVersion) => {
  const api = (): Api => clientsOf(service.transport(adminKey, protocol, httpVersion));

  test('a command streams its events and the server makes its id', async () => {
    const seen: Event[] = [];
    for await (const { event: found } of api().executions.execute({ sessionId, program: command })) {
      if (found !== undefined) seen.push(found.event);
    }
    expect(seen.map((found) => found.case)).toEqual(['started', 'stdout', 'finished']);
    expect(seen[0]?.value).toMatchObject({ executionId: expect.stringMatching(/^exe_/) });
  });

  test('an event is there before the next one happens', async () => {
    const go = Promise.withResolvers<void>();
    worker.execute = async (_request, stream) => {
      await stream.event(started);
      await go.promise;
      await stream.event(finished);
      stream.end();
    };
    const events = api().executions.execute({ sessionId, program: command })[Symbol.asyncIterator]();
    expect((await events.next()).value?.event?.event.case).toBe('started');
    go.resolve();
    expect((await events.next()).value?.event?.event.case).toBe('finished');
    expect((await events.next()).done).toBe(true);
  });

  test('attach passes the offsets on', async () => {
    const asked = Promise.withResolvers<unknown>();
    const before = worker.attach;
    worker.attach = async (request, stream) => {
      asked.resolve({ stdout: request.stdoutOffset, stderr: request.stderrOffset });
      await before(request, stream);
    };
    const offsets = { stdoutOffset: 5n, stderrOffset: 7n };
    for await (const _ of api().executions.attach({ sessionId, executionId: 'x', ...offsets }));
    worker.attach = before;
    expect(await asked.promise).toEqual({ stdout: 5n, stderr: 7n });
  });

  test.each([
    ['before the first event', false],
    ['in mid-stream', true],
  ])("the worker's error arrives %s with its reason, words and details", async (_when, late) => {
    worker.execute = async (_request, stream) => {
      if (late) await stream.event(started);
      throw new DomainError('PROGRAM_NOT_STARTED', 'no such file: 50% of “ünicode”', { errno: 'ENOENT' });
    };
    const error = await run(api()).catch((e) => e);
    expect(reasonOf(error)).toBe('PROGRAM_NOT_STARTED');
    expect(metadataOf(error)).toEqual({ errno: 'ENOENT' });
    expect(ConnectError.from(error).rawMessage).toBe('no such file: 50% of “ünicode”');
    expect(ConnectError.from(error).code).toBe(Code.FailedPrecondition);
  });

  test('a worker that breaks off is told from an end, with what is needed to attach again', async () => {
    worker.execute = async (_request, stream) => {
      await stream.event(started);
      worker.breakConnections();
    };
    const error = await run(api()).catch((e) => e);
    expect(reasonOf(error)).toBe('WORKER_UNREACHABLE');
    expect(ConnectError.from(error).rawMessage).toContain('attach again from the offsets you have');
    expect(metadataOf(error)).toMatchObject({ session_id: sessionId, execution_id: expect.stringMatching(/^exe_/) });
  });

  test('a deadline ends the call and lets go of the stream', async () => {
    const reached: Promise<void>[] = [];
    worker.execute = async (_request, stream) => {
      reached.push(stream.left);
      await stream.event(started);
    };
    // On a machine that is held up the time may be over before the worker hears of it.
    for (let timeoutMs = 300; reached.length === 0; timeoutMs *= 2) {
      const error = await run(api(), { timeoutMs }).catch((e) => e);
      expect(ConnectError.from(error).code).toBe(Code.DeadlineExceeded);
    }
    await Promise.all(reached);
  });

  test('a client that goes away lets go of the stream', async () => {
    const closed = Promise.withResolvers<void>();
    const abort = new AbortController();
    worker.execute = async (_request, stream) => {
      stream.left.then(closed.resolve);
      await stream.event(started);
    };
    const events = api().executions.execute({ sessionId, program: command }, { signal: abort.signal });
    for await (const _ of events) break;
    abort.abort();
    await closed.promise;
  });

  test('a session that has ended is refused with its reason', async () => {
    const made = (await api().sessions.createSession({})).session?.sessionId ?? '';
    await api().sessions.closeSession({ sessionId: made });
    const events = api().executions.execute({ sessionId: made, program: command });
    const error = await events[Symbol.asyncIterator]()
      .next()
      .catch((e) => e);
    expect(reasonOf(error)).toBe('SESSION_ENDED');
    expect(ConnectError.from(error).rawMessage).toContain('CLOSED_BY_CALLER');
  });

  test('a key has only so many streams open at one time', async () => {
    const { secret } = await service.makeKey(Scope.AGENT);
    const narrow = clientsOf(service.transport(secret, protocol, httpVersion));
    const abort = new AbortController();
    worker.execute = (_request, stream) => stream.event(started);
    const open = Array.from({ length: 3 }, () =>
      narrow.executions.execute({ sessionId, program: command }, { signal: abort.signal })[Symbol.asyncIterator](),
    );
    await Promise.all(open.map((events) => events.next()));
    expect(reasonOf(await run(narrow).catch((e) => e))).toBe('STREAM_QUOTA');
    const ends = open.map((events) => events.next().catch(() => {}));
    abort.abort();
    await Promise.all(ends);
    worker.execute = greet;
    await expect.poll(() => run(narrow).then(Boolean, () => false)).toBe(true);
  });
});

describe.each(ways)('attaching over %s on HTTP/%s', (protocol, httpVersion) => {
  const events = (signal = new AbortController().signal) =>
    clientsOf(service.transport(adminKey, protocol, httpVersion)).executions.attach(
      { sessionId, executionId: 'x' },
      { signal },
    );
  const attach = async (): Promise<void> => {
    for await (const _ of events());
  };

  test.each([
    ['before the first event', false],
    ['in mid-stream', true],
  ])("the worker's error arrives %s with its reason and words", async (_when, late) => {
    worker.attach = async (_request, stream) => {
      if (late) await stream.event(started);
      throw new DomainError('SHELL_CLOSED', 'it is gone: 50% of “ünicode”', { shell_id: 'x' });
    };
    const error = await attach().catch((e) => e);
    expect(reasonOf(error)).toBe('SHELL_CLOSED');
    expect(metadataOf(error)).toEqual({ shell_id: 'x' });
    expect(ConnectError.from(error).rawMessage).toBe('it is gone: 50% of “ünicode”');
  });

  test('a worker that breaks off is told from an end, with what is needed to attach again', async () => {
    worker.attach = async (_request, stream) => {
      await stream.event(started);
      worker.breakConnections();
    };
    const error = await attach().catch((e) => e);
    expect(reasonOf(error)).toBe('WORKER_UNREACHABLE');
    expect(metadataOf(error)).toMatchObject({ session_id: sessionId, execution_id: 'x' });
  });

  test('a client that goes away lets go of the worker', async () => {
    const closed = Promise.withResolvers<void>();
    worker.attach = async (_request, stream) => {
      stream.left.then(closed.resolve);
      await stream.event(started);
    };
    const abort = new AbortController();
    for await (const _ of events(abort.signal)) break;
    abort.abort();
    await closed.promise;
  });
});

describe('a slow reader', () => {
  const chunk = Buffer.alloc(65_536, 'x');
  const chunks = 512;

  /** A worker that writes 32 MiB as fast as it is let, on a stream of its own, and says how far it is. */
  function flood(): { written: () => number } {
    let written = 0;
    worker.execute = async (_request, stream: DoubleStream) => {
      await stream.event(started);
      stream.handOver();
    };
    worker.attach = async (_request, stream: DoubleStream) => {
      for (let i = 0; i < chunks; i += 1) {
        await stream.event(output(chunk, i * chunk.length));
        written += chunk.length;
      }
      await stream.event(finished);
      stream.end();
    };
    return { written: () => written };
  }

  function open(session: ClientHttp2Session) {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/assay.v1.ExecutionService/Execute',
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      authorization: `Bearer ${adminKey}`,
    });
    const request = create(ExecuteRequestSchema, { sessionId, program: command });
    stream.end(grpcFrame(toBinary(ExecuteRequestSchema, request)));
    return stream;
  }

  test('slows its own worker stream down, costs little memory, and gets every byte', async () => {
    const { written } = flood();
    const session = connect(`http://127.0.0.1:${service.port}`);
    const stream = open(session);
    await once(stream, 'response');
    stream.pause();
    // The writer has stalled when another client's whole command does not move it.
    const api = clientsOf(service.transport(adminKey));
    let before = -1;
    await vi.waitUntil(
      async () => {
        await api.server.getServerInfo({});
        const stalled = written() === before;
        before = written();
        return stalled && before > 0;
      },
      { timeout: 120_000, interval: 200 },
    );
    expect(written()).toBeLessThan(8 * 1_048_576);

    const frames = createGrpcFrameReader(1_048_576);
    const hash = createHash('sha256');
    let bytes = 0;
    const trailers = once(stream, 'trailers');
    for await (const part of stream as AsyncIterable<Buffer>) {
      for (const message of frames.push(part)) {
        const found = fromBinary(ExecuteResponseSchema, message).event?.event;
        if (found?.case !== 'stdout') continue;
        hash.update(found.value.data);
        bytes += found.value.data.length;
      }
    }
    expect(bytes).toBe(chunks * chunk.length);
    expect(hash.digest('hex')).toBe(createHash('sha256').update(Buffer.alloc(bytes, 'x')).digest('hex'));
    expect((await trailers)[0]).toMatchObject({ 'grpc-status': '0' });
    session.destroy();
  });

  test('even one that stalls for ever does not hold back another stream of the same connection', async () => {
    flood();
    const session = connect(`http://127.0.0.1:${service.port}`);
    const stalled = [open(session), open(session)];
    for (const stream of stalled) {
      await once(stream, 'response');
      stream.pause();
    }
    worker.execute = greet;
    const { secret } = await service.makeKey(Scope.AGENT);
    expect(await run(clientsOf(service.transport(secret)))).toEqual(['started', 'stdout', 'finished']);
    const other = open(session);
    const trailers = once(other, 'trailers');
    other.resume();
    expect((await trailers)[0]).toMatchObject({ 'grpc-status': '0' });
    session.destroy();
  });
});

test('a client that reads nothing is let go after its call has ended, and cannot harm the server by reading then', async () => {
  // What it was to be told never fits into its window, so only a reset can end the stream.
  await expect.poll(() => unread.stream.closed).toBe(true);
  unread.connection.settings({ initialWindowSize: 65_535 });
  expect(await run(clientsOf(service.transport(adminKey)))).toContain('started');
  unread.connection.destroy();
});
