import { setImmediate as turn } from 'node:timers/promises';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  ExecuteManyRequestSchema,
  type ExecuteManyResponse,
  type ExecutionEvent,
} from '../../gen/assay/v1/execution_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import type { Admitted } from '../../services/sessions/auth/admission.ts';
import type { ExecutionStreams } from '../../services/sessions/execution/execution-stream.ts';
import { createManyCalls } from '../../services/sessions/execution/many-calls.ts';
import { DomainError } from '../../services/shared/domain-error.ts';
import { toConnectError } from '../../services/shared/rpc-error.ts';
import { createWorkShares } from '../../services/shared/work-shares.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let sessionId: string;
let greet: WorkerDouble['execute'];

beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_STREAMS_PER_KEY: '4' } });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  greet = worker.execute;
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
});
afterAll(() => service.stop());
let key: string;
let keyId: string;
beforeEach(async () => {
  worker.execute = greet;
  ({ secret: key, keyId } = await service.makeKey(Scope.AGENT));
});

type Request = MessageInitShape<typeof ExecuteManyRequestSchema>;
const program = { case: 'command', value: 'true' } as const;
const event = (value: unknown) => value as ExecutionEvent['event'];
const started = event({ case: 'started', value: { executionId: 'x' } });

/** An open ExecuteMany: what is said to it, and what it answered. */
function openMany(bearer: string, protocol: Protocol) {
  const unsent: Request[] = [];
  let more = (): void => {};
  let over = false;
  async function* requests() {
    for (;;) {
      while (unsent.length > 0) yield unsent.shift() as Request;
      if (over) return;
      await new Promise<void>((resolve) => {
        more = resolve;
      });
    }
  }
  const answers = clientsOf(service.transport(bearer, protocol)).executions.executeMany(requests());
  const reader = answers[Symbol.asyncIterator]();
  return {
    say(request: Request) {
      unsent.push(request);
      more();
    },
    end() {
      over = true;
      more();
    },
    /** The parts of a call until its end. */
    async read(call: number): Promise<{ events: string[]; reason: string | undefined; more: boolean }> {
      const events: string[] = [];
      for (;;) {
        const { value, done } = (await reader.next()) as IteratorResult<ExecuteManyResponse>;
        if (done === true) throw new Error('the stream ended');
        expect(value.call).toBe(call);
        events.push(...value.events.map((found: ExecutionEvent) => found.event.case ?? ''));
        if (value.end !== undefined) return { events, reason: reasonIn(value.end.status), more: value.end.more };
      }
    },
    next: () => reader.next(),
  };
}

function reasonIn(status: Uint8Array): string | undefined {
  if (status.length === 0) return undefined;
  const any = fromBinary(StatusSchema, status).details[0];
  return any === undefined ? '' : fromBinary(ErrorInfoSchema, any.value).reason;
}

describe.each<Protocol>(['grpc', 'connect'])('many calls over %s', (protocol) => {
  test('run one after the other and side by side, and the stream ends when its client does', async () => {
    const many = openMany(key, protocol);
    const greeted = { events: ['started', 'stdout', 'finished'], reason: undefined, more: false };
    many.say({ call: 1, request: { sessionId, program } });
    expect(await many.read(1)).toEqual(greeted);
    many.say({ call: 7, request: { sessionId, program } });
    expect(await many.read(7)).toEqual(greeted);
    many.end();
    expect((await many.next()).done).toBe(true);
  });

  test('a call that is refused says why and leaves the others alone', async () => {
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId: 'ses_01h00000000000000000000000', program } });
    expect(await many.read(1)).toMatchObject({ reason: 'SESSION_NOT_FOUND', events: [] });
    many.say({ call: 2, request: { sessionId } });
    expect(await many.read(2)).toMatchObject({ reason: 'INVALID_FIELD' });
    worker.execute = async (_request, stream) => stream.fail(new DomainError('SESSION_ENDED', 'it is closed'));
    many.say({ call: 3, request: { sessionId, program } });
    expect(await many.read(3)).toMatchObject({ reason: 'SESSION_ENDED' });
    worker.execute = greet;
    many.say({ call: 4, request: { sessionId, program } });
    expect((await many.read(4)).reason).toBeUndefined();
    many.end();
    expect((await many.next()).done).toBe(true);
  });

  test('a client that asks and ends at once is answered all the same', async () => {
    for (let count = 0; count < 20; count++) {
      const many = openMany(key, protocol);
      many.say({ call: 1, request: { sessionId } });
      many.say({ call: 2, request: { sessionId, program } });
      many.end();
      const answered = new Map<number, string | undefined>();
      for (let next = await many.next(); next.done !== true; next = await many.next()) {
        if (next.value.end !== undefined) answered.set(next.value.call, reasonIn(next.value.end.status));
      }
      expect([...answered].sort()).toEqual([
        [1, 'INVALID_FIELD'],
        [2, undefined],
      ]);
      const alone = openMany(key, protocol);
      alone.say({ call: 1, request: { sessionId } });
      alone.end();
      expect(await alone.read(1)).toMatchObject({ reason: 'INVALID_FIELD' });
    }
  });

  test('another project finds no session, and a key that is revoked meanwhile runs nothing more: its stream ends', async () => {
    const stranger = openMany((await service.makeKey(Scope.AGENT, 'stranger')).secret, protocol);
    stranger.say({ call: 1, request: { sessionId, program } });
    expect(await stranger.read(1)).toMatchObject({ reason: 'SESSION_NOT_FOUND', events: [] });
    stranger.end();
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId, program } });
    expect((await many.read(1)).events).toContain('finished');
    await clientsOf(service.transport(adminKey)).keys.revokeKey({ keyId });
    const heard = worker.heard.length;
    many.say({ call: 2, request: { sessionId, program } });
    expect(await many.next().catch(reasonOf)).toBe('UNAUTHENTICATED');
    expect(worker.heard.length).toBe(heard);
    many.end();
  });

  test('every open call counts as a stream of its key, and leaving gives its place back', async () => {
    const leaving = new Map<unknown, Promise<void>>();
    worker.execute = async (request, stream) => {
      leaving.set(request.program.value, stream.left);
      await stream.event(started);
    };
    const named = (value: string) => ({ case: 'command', value }) as const;
    const many = openMany(key, protocol);
    // The stream itself is the first of four.
    for (const call of [1, 2, 3]) many.say({ call, request: { sessionId, program: named(`true ${call}`) } });
    for (let seen = 0; seen < 3; seen++) expect((await many.next()).value?.events).toHaveLength(1);
    many.say({ call: 4, request: { sessionId, program } });
    expect(await many.read(4)).toMatchObject({ reason: 'STREAM_QUOTA' });
    many.say({ call: 2 });
    await leaving.get('true 2');
    worker.execute = greet;
    many.say({ call: 5, request: { sessionId, program } });
    expect((await many.read(5)).reason).toBeUndefined();
    many.end();
  });

  test('a call with too much to say for this way is told to attach', async () => {
    worker.execute = async (_request, stream) => {
      await stream.event(started);
      stream.handOver();
    };
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId, program } });
    expect(await many.read(1)).toEqual({ events: ['started'], reason: undefined, more: true });
    many.end();
  });

  test('a client that does not read is told to attach for what the server does not hold', async () => {
    const pieces = 200;
    const said = Promise.withResolvers<void>();
    worker.execute = async (_request, stream) => {
      const data = Buffer.alloc(65_536);
      for (let at = 0; at < pieces; at++) {
        await stream.event(event({ case: 'stdout', value: { offset: BigInt(at * data.length), data } }));
        await turn();
      }
      stream.end();
      said.resolve();
    };
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId, program } });
    await said.promise;
    const { events, more } = await many.read(1);
    expect(more).toBe(true);
    expect(events.length).toBeLessThan(pieces);
    worker.execute = greet;
    many.say({ call: 2, request: { sessionId, program } });
    expect((await many.read(2)).events).toContain('finished');
    many.end();
  });

  test('a number that is open already ends the stream with a reason, and its commands go on', async () => {
    const go = Promise.withResolvers<void>();
    let ran = false;
    worker.execute = async (_request, stream) => {
      await stream.event(started);
      await go.promise;
      ran = true;
    };
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId, program } });
    await many.next();
    many.say({ call: 1, request: { sessionId, program } });
    expect(reasonOf(await many.next().catch((error: unknown) => error))).toBe('INVALID_FIELD');
    go.resolve();
    await expect.poll(() => ran).toBe(true);
  });

  test('a worker that goes away is told to each of its calls', async () => {
    worker.execute = async (_request, stream) => {
      await stream.event(started);
    };
    const many = openMany(key, protocol);
    many.say({ call: 1, request: { sessionId, program } });
    await many.next();
    worker.breakConnections();
    expect(await many.read(1)).toMatchObject({ reason: 'WORKER_UNREACHABLE' });
    worker.execute = greet;
    many.say({ call: 2, request: { sessionId, program } });
    expect((await many.read(2)).events).toContain('finished');
    many.end();
  });
});

test('a client that goes away leaves its calls, and their places are given back', async () => {
  const left = Promise.withResolvers<void>();
  worker.execute = async (_request, stream) => {
    await stream.event(started);
    void stream.left.then(left.resolve);
  };
  const gone = new AbortController();
  async function* requests() {
    yield { call: 1, request: { sessionId, program } } satisfies Request;
    await new Promise<void>((resolve) => gone.signal.addEventListener('abort', () => resolve()));
  }
  const { executions } = clientsOf(service.transport(key, 'grpc'));
  const reader = executions.executeMany(requests(), { signal: gone.signal })[Symbol.asyncIterator]();
  await reader.next();
  gone.abort();
  await left.promise;
  worker.execute = greet;
  await turn();
  const many = openMany(key, 'grpc');
  for (const call of [1, 2, 3]) {
    many.say({ call, request: { sessionId, program } });
    expect((await many.read(call)).events).toEqual(['started', 'stdout', 'finished']);
  }
  many.end();
});

test('a call counts as open until its end is on the way, so that no stream is ended before', async () => {
  const error = new DomainError('RATE_LIMITED', 'too many');
  const sizes: number[] = [];
  const sent = Promise.withResolvers<void>();
  const record = {
    requestId: '',
    traceparent: undefined,
    about() {},
    fail: () => toConnectError(error, () => {}),
    // Whoever hears of the client's end looks in such a moment.
    end: () => queueMicrotask(() => sizes.push(calls.size)),
  };
  const calls = createManyCalls({
    admission: { admit: () => Promise.reject(error) },
    records: () => record,
    streams: {} as ExecutionStreams,
    shares: createWorkShares(),
  })(
    { authorization: undefined, peer: { address: '', prove() {} } },
    { crowded: false, send: () => sizes.push(-1), idle: () => sent.resolve() },
  );
  const request = { call: 1, request: { sessionId, program } };
  calls.take(toBinary(ExecuteManyRequestSchema, create(ExecuteManyRequestSchema, request)));
  await sent.promise;
  expect(sizes).toEqual([1, -1]);
  expect(calls.size).toBe(0);
});

test('a project that asks for much waits behind itself: the call of another is passed on before the rest', async () => {
  const passedOn: string[] = [];
  let ms = 0;
  const share = (project: string) => {
    passedOn.push(project);
    return new Promise<never>(() => {});
  };
  const open = createManyCalls({
    admission: {
      admit: async ({ authorization: project = '' }) => ({ caller: { project }, release() {} }) as unknown as Admitted,
    },
    records: () => ({ requestId: '', traceparent: undefined, about() {}, fail: () => new ConnectError(''), end() {} }),
    streams: { share } as unknown as ExecutionStreams,
    // A clock on which every look takes a millisecond.
    shares: createWorkShares({ sliceMs: 1, now: () => ms++ }),
  });
  const answering = { crowded: false, send() {}, idle() {} };
  const speakers = ['alpha', 'beta'].map((project) => open({ authorization: project, peer: '' as never }, answering));
  const message = (call: number) =>
    toBinary(ExecuteManyRequestSchema, create(ExecuteManyRequestSchema, { call, request: { sessionId, program } }));
  for (let call = 1; call <= 100; call++) speakers[0]?.take(message(call));
  speakers[1]?.take(message(1));
  await expect.poll(() => passedOn.length).toBe(101);
  expect(passedOn.indexOf('beta')).toBeLessThan(10);
});
