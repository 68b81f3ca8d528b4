import { createHash, randomBytes, randomInt } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterEach, expect, test, vi } from 'vitest';
import { type Client, createClient, type ExecutionEvent, type Session } from '../../../clients/typescript/index.ts';
import { finished, gap, heartbeat, output, started } from './execution-script.ts';
import { type DoubleServices, refusal, type ServerDouble, startServerDouble, unavailable } from './server-double.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const session = { getSession: () => ({ session: { sessionId: 'ses_1' } }) };

interface Bench {
  server: ServerDouble;
  client: Client;
  session: Session;
}

async function connect(execution: DoubleServices['execution'], reconnectTimeoutMs = 60_000): Promise<Bench> {
  const server = await startServerDouble({ execution: execution ?? {}, session });
  const client = createClient({ endpoint: server.endpoint, reconnectTimeoutMs });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  return { server, client, session: await client.sessions.get('ses_1') };
}

async function read(events: AsyncIterable<ExecutionEvent>): Promise<ExecutionEvent[]> {
  return Array.fromAsync(events);
}

function bytesOf(events: ExecutionEvent[], stream: 'stdout' | 'stderr'): Buffer {
  return Buffer.concat(events.flatMap((event) => (event.type === stream ? [event.data] : [])));
}

const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');

test('a stream that ends before Finished is attached to again where it stood', async () => {
  const asked: unknown[] = [];
  const { session } = await connect({
    async *execute() {
      yield started();
      yield output('stdout', 0, 'one ');
      yield output('stderr', 0, 'warned');
    },
    async *attach(request) {
      asked.push({ stdout: request.stdoutOffset, stderr: request.stderrOffset, background: request.followBackground });
      yield started();
      yield output('stdout', 4, 'two');
      yield finished(7, 6);
    },
  });
  const events = await read(session.execute('x'));
  expect(asked).toEqual([{ stdout: 4n, stderr: 6n, background: false }]);
  expect(events.map((event) => event.type)).toEqual(['started', 'stdout', 'stderr', 'stdout', 'finished']);
  expect(bytesOf(events, 'stdout').toString()).toBe('one two');
});

test('cuts at random offsets, overlaps and repetitions lose no byte and double none', async () => {
  const source = { stdout: randomBytes(700_000), stderr: randomBytes(300_000) };
  let streams = 0;
  async function* play(from: { stdout: number; stderr: number }) {
    streams++;
    yield started();
    const at = {
      stdout: Math.max(0, from.stdout - randomInt(5000)),
      stderr: Math.max(0, from.stderr - randomInt(5000)),
    };
    for (const name of ['stdout', 'stderr', 'stdout', 'stderr', 'stdout', 'stderr'] as const) {
      const piece = source[name].subarray(at[name], at[name] + randomInt(60_000));
      yield output(name, at[name], piece);
      if (randomInt(4) === 0) yield output(name, at[name], piece);
      at[name] += piece.length;
      if (randomInt(10) === 0) throw [unavailable(), new ConnectError('reset', Code.Unavailable)][randomInt(2)];
    }
    const complete = at.stdout === source.stdout.length && at.stderr === source.stderr.length;
    if (complete) yield finished(source.stdout.length, source.stderr.length);
  }
  const { session } = await connect({
    execute: () => play({ stdout: 0, stderr: 0 }),
    attach: (request) => play({ stdout: Number(request.stdoutOffset), stderr: Number(request.stderrOffset) }),
  });
  const events = await read(session.execute('x'));
  expect(streams).toBeGreaterThan(3);
  expect(sha256(bytesOf(events, 'stdout'))).toBe(sha256(source.stdout));
  expect(sha256(bytesOf(events, 'stderr'))).toBe(sha256(source.stderr));
  let next = 0;
  for (const event of events) {
    if (event.type !== 'stdout') continue;
    expect(event.offset).toBe(next);
    next += event.data.length;
  }
});

test('a connection that is cut in the middle of a stream is opened again', async () => {
  const cuts: (() => void)[] = [];
  const { server, session } = await connect({
    async *execute() {
      yield started();
      yield output('stdout', 0, 'before ');
      await new Promise((resolve) => cuts.push(() => resolve(undefined)));
      yield output('stdout', 7, 'never seen');
    },
    async *attach(request) {
      yield started();
      yield output('stdout', Number(request.stdoutOffset), 'after');
      yield finished(12);
    },
  });
  const seen: string[] = [];
  for await (const event of session.execute('x')) {
    if (event.type !== 'stdout') continue;
    seen.push(Buffer.from(event.data).toString());
    if (seen.length === 1) server.cut();
  }
  for (const release of cuts) release();
  expect(seen).toEqual(['before ', 'after']);
});

test('fifty cuts of the connection at random moments lose no byte and double none', async () => {
  // The double's adapter complains of each write that a cut interrupts.
  const complaints = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  cleanups.push(() => complaints.mockRestore());
  const source = randomBytes(8 * 1024 * 1024);
  const pieceBytes = 16 * 1024;
  async function* play(from: number) {
    yield started();
    for (let at = from; at < source.length; at += pieceBytes)
      yield output('stdout', at, source.subarray(at, at + pieceBytes));
    yield finished(source.length);
  }
  const { server, session } = await connect({
    execute: () => play(0),
    attach: (request) => play(Number(request.stdoutOffset)),
  });
  const pieces: Uint8Array[] = [];
  let cuts = 0;
  for await (const event of session.execute('x')) {
    if (event.type !== 'stdout') continue;
    pieces.push(event.data);
    if (cuts < 50 && randomInt(8) === 0) {
      cuts++;
      server.cut();
    }
  }
  expect(cuts).toBeGreaterThan(10);
  expect(sha256(Buffer.concat(pieces))).toBe(sha256(source));
});

test('an execution that was never seen to start is sent again with the same id', async () => {
  const ids: string[] = [];
  const { session } = await connect({
    async *execute(request) {
      ids.push(request.executionId);
      if (ids.length < 3) throw unavailable();
      yield started();
      yield finished(0);
    },
  });
  const execution = session.execute('x');
  await expect(execution.result()).resolves.toMatchObject({ reason: 'EXITED', exitCode: 0 });
  expect(ids).toEqual([execution.id, execution.id, execution.id]);
});

test('a gap is told once, and only the part that is new', async () => {
  const { session } = await connect({
    async *execute() {
      yield started();
      yield output('stdout', 0, 'head');
      yield gap('stdout', 4, 100);
    },
    async *attach(request) {
      expect(request.stdoutOffset).toBe(100n);
      yield started();
      yield gap('stdout', 4, 120);
      yield output('stdout', 120, 'tail');
      yield finished(124);
    },
  });
  const result = await session.run('x');
  expect(result.gaps).toEqual([
    { stream: 'stdout', startOffset: 4, endOffset: 100 },
    { stream: 'stdout', startOffset: 100, endOffset: 120 },
  ]);
  expect(result.stdout.toString()).toBe('headtail');
  expect(result.stdoutTruncated).toBe(true);
  expect(result.stderrTruncated).toBe(false);
});

test('a hole that heals on a fresh stream is not seen by the reader', async () => {
  const { session } = await connect({
    async *execute() {
      yield started();
      yield output('stdout', 0, 'abc');
      yield output('stdout', 5, 'lost');
    },
    async *attach() {
      yield started();
      yield output('stdout', 3, 'defg');
      yield finished(7);
    },
  });
  expect((await session.run('x')).stdout.toString()).toBe('abcdefg');
});

test('a hole that stays is an error, never silence', async () => {
  async function* holed() {
    yield started();
    yield output('stdout', 5, 'lost');
  }
  const { session } = await connect({ execute: holed, attach: holed });
  await expect(session.run('x')).rejects.toMatchObject({ reason: 'OUTPUT_HOLE', code: 'DATA_LOSS' });
});

test('an end that counts more bytes than arrived is not believed', async () => {
  async function* short() {
    yield started();
    yield finished(10);
  }
  const { session } = await connect({ execute: short, attach: short });
  await expect(session.run('x')).rejects.toMatchObject({ reason: 'OUTPUT_HOLE' });
});

test('an error that will not pass ends the execution at once, with the reason of the server', async () => {
  let calls = 0;
  const { session } = await connect({
    // biome-ignore lint/correctness/useYield: a stream that is refused before its first event.
    async *execute() {
      calls++;
      throw refusal('PROGRAM_NOT_STARTED', Code.FailedPrecondition, { program: 'nope' });
    },
  });
  const execution = session.execute(['nope']);
  await expect(execution.result()).rejects.toMatchObject({
    name: 'AssayError',
    reason: 'PROGRAM_NOT_STARTED',
    code: 'FAILED_PRECONDITION',
    metadata: { program: 'nope' },
  });
  await expect(execution.started).rejects.toMatchObject({ reason: 'PROGRAM_NOT_STARTED' });
  expect(calls).toBe(1);
});

test('a server that stays away is given up after reconnectTimeoutMs, with the last error', async () => {
  const { session } = await connect(
    {
      async *execute() {
        yield started();
        throw unavailable();
      },
      // biome-ignore lint/correctness/useYield: a stream that is refused before its first event.
      async *attach() {
        throw unavailable();
      },
    },
    300,
  );
  await expect(session.run('x')).rejects.toMatchObject({ reason: 'WORKER_UNREACHABLE', code: 'UNAVAILABLE' });
});

test('leaving the iteration ends the call and not the command', async () => {
  const ended = Promise.withResolvers<void>();
  let cancelled = false;
  const { session } = await connect({
    async *execute(_, context) {
      context.signal.addEventListener('abort', () => ended.resolve());
      yield started();
      yield heartbeat();
      await ended.promise;
    },
    cancelExecution() {
      cancelled = true;
      return {};
    },
  });
  const execution = session.execute('x');
  for await (const event of execution) if (event.type === 'heartbeat') break;
  await ended.promise;
  expect(cancelled).toBe(false);
  await expect(execution.result()).rejects.toMatchObject({ reason: 'DETACHED' });
  expect(() => execution[Symbol.asyncIterator]()).toThrow(expect.objectContaining({ reason: 'ALREADY_CONSUMED' }));
});

test('a slow reader holds the sender back', async () => {
  let sent = 0;
  const piece = new Uint8Array(256 * 1024);
  const pieces = 200;
  const { session } = await connect({
    async *execute() {
      yield started();
      for (; sent < pieces; sent++) yield output('stdout', sent * piece.length, piece);
      yield finished(pieces * piece.length);
    },
  });
  const execution = session.execute('x');
  await execution.started;
  // Calls on the same connection give the sender every occasion to go on.
  for (let round = 0; round < 50; round++) await session.refresh();
  expect(sent).toBeLessThan(pieces / 2);
  await expect(execution.result()).resolves.toMatchObject({ stdoutBytes: pieces * piece.length });
});

test('closing the client ends what it follows', async () => {
  const { client, session } = await connect({
    async *execute(_, context) {
      yield started();
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
    },
  });
  const execution = session.execute('x');
  await execution.started;
  const result = execution.result();
  client.close();
  await expect(result).rejects.toMatchObject({ reason: 'CLIENT_CLOSED' });
  await expect(session.refresh()).rejects.toMatchObject({ reason: 'CLIENT_CLOSED' });
});
