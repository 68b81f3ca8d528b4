import { execFile, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import type { ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient as connectTo, type Session } from '../../clients/typescript/index.ts';
import { type ExecutionEvent, ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { SessionService, SessionState } from '../../gen/assay/v1/session_pb.js';
import { type Certificate, makeCertificate } from './certificate.ts';
import { type LoadedClient, loadClient } from './loaded-client.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { startHttp2Proxy, startTunnel } from './tls-proxy.ts';

let stack: TestStack;
let session: Session;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create({ labels: { of: 'interop' } });
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

/** What every client boils down to: pieces of stdout, and at the end the exit code. */
type Piece = { stdout: Uint8Array } | { exitCode: number | undefined };

/**
 * Reads a command that prints, waits for a file and prints again. The file is made only after the first line is here, so
 * a server or client that held the line back would never come to the second.
 */
async function readsWhileItRuns(open: (command: string, executionId: string) => AsyncIterable<Piece>): Promise<void> {
  const executionId = randomUUID();
  const file = `/tmp/${executionId}`;
  const command = `echo first; until [ -e ${file} ]; do sleep 0.02; done; echo second; exit 3`;
  const seen: string[] = [];
  for await (const piece of open(command, executionId)) {
    if ('exitCode' in piece) {
      seen.push(`exit ${piece.exitCode}`);
      continue;
    }
    seen.push(Buffer.from(piece.stdout).toString());
    if (seen.join('') !== 'first\n') continue;
    expect((await session.execution(executionId)).state).toBe('RUNNING');
    await session.run(`touch ${file}`);
  }
  expect(seen).toEqual(['first\n', 'second\n', 'exit 3']);
}

test('our client has the first line before the command goes on', () =>
  readsWhileItRuns(async function* (command, id) {
    for await (const event of session.execute(command, { id })) {
      if (event.type === 'stdout') yield { stdout: event.data };
      if (event.type === 'finished') yield { exitCode: event.result.exitCode };
    }
  }));

describe('a generated Connect client', () => {
  const authorize: Interceptor = (next) => (request) => {
    request.header.set('authorization', `Bearer ${stack.key}`);
    return next(request);
  };
  const options = () => ({ baseUrl: stack.endpoint, interceptors: [authorize] });
  const transports: Record<string, () => Transport> = {
    'gRPC on HTTP/2': () => createGrpcTransport(options()),
    'gRPC-Web on HTTP/2': () => createGrpcWebTransport({ ...options(), httpVersion: '2' }),
    'gRPC-Web on HTTP/1.1': () => createGrpcWebTransport({ ...options(), httpVersion: '1.1' }),
    'Connect on HTTP/2': () => createConnectTransport({ ...options(), httpVersion: '2' }),
    'Connect on HTTP/1.1': () => createConnectTransport({ ...options(), httpVersion: '1.1' }),
    'Connect with JSON on HTTP/1.1': () =>
      createConnectTransport({ ...options(), httpVersion: '1.1', useBinaryFormat: false }),
  };

  test.each(Object.keys(transports))('over %s streams Execute and Attach and calls the rest', async (name) => {
    const transport = (transports[name] as () => Transport)();
    const rpc = createClient(ExecutionService, transport);
    const sessionId = session.id;
    await readsWhileItRuns((command, executionId) =>
      pieces(rpc.execute({ sessionId, executionId, program: { case: 'command', value: command } })),
    );
    await readsWhileItRuns(async function* (command, executionId) {
      await session.execute(command, { id: executionId }).started;
      yield* pieces(rpc.attach({ sessionId, executionId }));
    });
    const found = await createClient(SessionService, transport).getSession({ sessionId });
    expect(found.session).toMatchObject({ sessionId, state: SessionState.READY, labels: { of: 'interop' } });
  });
});

async function* pieces(responses: AsyncIterable<{ event?: ExecutionEvent | undefined }>): AsyncGenerator<Piece> {
  for await (const { event } of responses) {
    if (event?.event.case === 'stdout') yield { stdout: event.event.value.data };
    if (event?.event.case === 'finished') yield { exitCode: event.event.value.result?.exitCode };
  }
}

describe('a grpc-js client made from the .proto files', () => {
  interface LoadedEvent {
    event: { stdout?: { data: Buffer }; finished?: { result: { exit_code: number; reason: string } } };
  }

  async function* loadedPieces(responses: AsyncIterable<LoadedEvent>): AsyncGenerator<Piece> {
    for await (const { event } of responses) {
      if (event.stdout) yield { stdout: event.stdout.data };
      if (event.finished) yield { exitCode: event.finished.result.exit_code };
    }
  }

  async function streamsAndCalls(client: LoadedClient): Promise<void> {
    const session_id = session.id;
    await readsWhileItRuns((command, execution_id) =>
      loadedPieces(client.stream('ExecutionService', 'Execute', { session_id, execution_id, command })),
    );
    await readsWhileItRuns(async function* (command, execution_id) {
      await session.execute(command, { id: execution_id }).started;
      yield* loadedPieces(client.stream('ExecutionService', 'Attach', { session_id, execution_id }));
    });
    const found = await client.unary<{ session: object }>('SessionService', 'GetSession', { session_id });
    expect(found.session).toMatchObject({ session_id, state: 'SESSION_STATE_READY', labels: { of: 'interop' } });
  }

  test('streams Execute and Attach and calls the rest', async () => {
    const client = loadClient(stack.endpoint, stack.key);
    await streamsAndCalls(client);
    client.close();
  });

  test('that compresses its requests is told that no compression is understood', async () => {
    const client = loadClient(stack.endpoint, stack.key, { 'grpc.default_compression_algorithm': 2 });
    await expect(streamsAndCalls(client)).rejects.toMatchObject({ code: 12, details: /compression "gzip"/ });
    client.close();
  });

  describe('that makes a mistake', () => {
    const session_id = `ses_${'0'.repeat(26)}`;

    async function mistakes(): Promise<ServiceError[]> {
      const client = loadClient(stack.endpoint, stack.key);
      const answers = await Promise.allSettled([
        client.unary('SessionService', 'GetSession', { session_id }),
        Array.fromAsync(client.stream('ExecutionService', 'Execute', { session_id, command: 'true' })),
      ]);
      client.close();
      return answers.map((answer) => (answer as PromiseRejectedResult).reason as ServiceError);
    }

    test('gets the code and the reason, from a unary call and from a stream', async () => {
      for (const { code, metadata } of await mistakes()) {
        expect(code).toBe(5);
        expect(String(metadata.get('grpc-status-details-bin')[0])).toContain('SESSION_NOT_FOUND');
      }
    });

    // grpc-js undoes only part of the escapes, so a message must carry no more of them than the protocol asks for.
    test('reads the sentence as it was meant', async () => {
      for (const { details } of await mistakes()) {
        expect(details).toBe(`no session ${session_id} in this project; ListSessions shows what there is`);
      }
    });
  });
});

const run = promisify(execFile);
const buf = fileURLToPath(new URL('../../node_modules/.bin/buf', import.meta.url));

describe('buf curl by reflection', () => {
  const header = () => `authorization: Bearer ${stack.key}`;
  const call = (method: string, protocol: string, request: object) => [
    ...['curl', '--protocol', protocol, '--http2-prior-knowledge', '--reflect-header', header(), '-H', header()],
    ...['-d', JSON.stringify(request), `${stack.endpoint}/${method}`],
  ];

  test.each(['grpc', 'grpcweb', 'connect'])('streams Execute over %s', (protocol) =>
    readsWhileItRuns(async function* (command, execution_id) {
      const request = { session_id: session.id, execution_id, command };
      const child = spawn(buf, call('assay.v1.ExecutionService/Execute', protocol, request), {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const closed = once(child, 'close');
      for await (const line of createInterface({ input: child.stdout })) {
        const data = /"data": *"([^"]*)"/.exec(line)?.[1];
        if (data !== undefined) yield { stdout: Buffer.from(data, 'base64') };
        const exitCode = /"exitCode": *(\d+)/.exec(line)?.[1];
        if (exitCode !== undefined) yield { exitCode: Number(exitCode) };
      }
      expect(await closed).toEqual([0, null]);
    }),
  );

  test('lists what there is to call', async () => {
    const args = ['curl', '--http2-prior-knowledge', '--reflect-header', header(), '--list-services', stack.endpoint];
    const { stdout } = await run(buf, args);
    expect(stdout.trim().split('\n')).toEqual(
      expect.arrayContaining(['assay.v1.ExecutionService', 'assay.v1.SessionService', 'grpc.health.v1.Health']),
    );
  });

  test.each(['grpc', 'grpcweb', 'connect'])('asks for health over %s without a key', async (protocol) => {
    const schema = fileURLToPath(new URL('../../node_modules/grpc-health-check/proto', import.meta.url));
    const args = ['curl', '--protocol', protocol, '--http2-prior-knowledge', '--schema', schema];
    const { stdout } = await run(buf, [...args, `${stack.endpoint}/grpc.health.v1.Health/Check`]);
    expect(JSON.parse(stdout)).toEqual({ status: 'SERVING' });
  });
});

describe('plain curl with Connect JSON', () => {
  /** The status and the body of a call. */
  async function curl(method: string, body: string, ...args: string[]): Promise<[number, Record<string, unknown>]> {
    const json = ['-H', 'content-type: application/json', '-d', body];
    const { stdout } = await run('curl', [
      ...args,
      '-sS',
      '-w',
      '\n%{http_code}',
      ...json,
      `${stack.endpoint}/${method}`,
    ]);
    const [answer, status] = stdout.split(/\n(?=\d+$)/);
    return [Number(status), JSON.parse(answer ?? '')];
  }
  const key = () => ['-H', `authorization: Bearer ${stack.key}`];

  test.each(['--http1.1', '--http2-prior-knowledge'])('%s makes, finds and closes a session', async (version) => {
    const request = '{"labels": {"by": "curl"}, "ttl": "60s", "limits": {"memoryBytes": "67108864"}}';
    const [status, made] = await curl('assay.v1.SessionService/CreateSession', request, version, ...key());
    expect([status, made.session]).toEqual([200, expect.objectContaining({ state: 'SESSION_STATE_READY' })]);
    const { sessionId } = made.session as { sessionId: string };
    const name = JSON.stringify({ sessionId });
    const [, found] = await curl('assay.v1.SessionService/GetSession', name, version, ...key());
    expect(found).toEqual(made);
    const [, closed] = await curl('assay.v1.SessionService/CloseSession', name, version, ...key());
    expect(closed.session).toMatchObject({
      sessionId,
      state: 'SESSION_STATE_CLOSED',
      endReason: 'SESSION_END_REASON_CLOSED_BY_CALLER',
    });
  });

  test('is refused without a key, and told so', async () => {
    const answer = await curl('assay.v1.SessionService/GetSession', '{}');
    expect(answer).toEqual([401, expect.objectContaining({ code: 'unauthenticated' })]);
  });

  test('asks for health without a key', async () => {
    expect(await curl('grpc.health.v1.Health/Check', '{}')).toEqual([200, { status: 'SERVING' }]);
  });
});

describe('behind a proxy with TLS', () => {
  let certificate: Certificate;
  beforeAll(() => {
    certificate = makeCertificate();
  });
  afterAll(() => certificate?.remove());

  test.each([
    ['speaks HTTP/2', startHttp2Proxy],
    ['passes bytes on', startTunnel],
  ])('that %s our client calls, streams, writes input and goes on when it is started again', async (_, start) => {
    let proxy = await start(certificate, stack.endpoint);
    using client = connectTo({ endpoint: proxy.endpoint, apiKey: stack.key, ca: certificate.authority });
    try {
      const behind = await client.sessions.get(session.id);
      const input = randomBytes(300_000);
      expect((await behind.run('cat', { input })).stdout.equals(input)).toBe(true);
      const numbers = Array.from({ length: 20 }, (_, number) => String(number));
      const answers = await Promise.all(numbers.map((number) => behind.run(`echo ${number}`)));
      expect(answers.map(({ stdout }) => stdout.toString().trim())).toEqual(numbers);
      if (start === startHttp2Proxy) {
        expect(proxy.paths.filter((path) => path.endsWith('/ExecuteMany'))).toHaveLength(1);
        expect(proxy.paths.filter((path) => path.endsWith('/Execute'))).toHaveLength(0);
      }
      const seen: string[] = [];
      const file = `/tmp/${randomUUID()}`;
      for await (const event of behind.execute(`echo first; until [ -e ${file} ]; do sleep 0.02; done; echo second`)) {
        if (event.type === 'stdout') seen.push(Buffer.from(event.data).toString());
        if (event.type !== 'stdout' || seen.length > 1) continue;
        await proxy.stop();
        await session.run(`touch ${file}`);
        proxy = await start(certificate, stack.endpoint, proxy.port);
      }
      expect(seen).toEqual(['first\n', 'second\n']);
    } finally {
      client.close();
      await proxy.stop();
    }
  });

  test('the command works with the authority it is told of, and says what it misses without', async () => {
    const proxy = await startHttp2Proxy(certificate, stack.endpoint);
    const assay = fileURLToPath(new URL('../../cli/assay.mjs', import.meta.url));
    const call = (authority: Record<string, string>) =>
      run(process.execPath, [assay, 'exec', '--no-stdin', session.id, '--', 'echo', 'through'], {
        env: { ...process.env, ASSAY_ENDPOINT: proxy.endpoint, ASSAY_API_KEY: stack.key, ...authority },
      });
    try {
      expect(await call({ NODE_EXTRA_CA_CERTS: certificate.authorityFile })).toEqual({
        stdout: 'through\n',
        stderr: '',
      });
      await expect(call({})).rejects.toMatchObject({
        code: 125,
        stderr: expect.stringMatching(/is not trusted[\s\S]*type: NODE_EXTRA_CA_CERTS=/),
      });
    } finally {
      await proxy.stop();
    }
  });
});
