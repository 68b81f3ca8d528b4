import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import type { ExecuteRequest } from '../../gen/assay/v1/execution_pb.js';
import { BuildStep } from '../../gen/assay/v1/sample_pb.js';
import { type CreateSessionRequest, SessionState } from '../../gen/assay/v1/session_pb.js';
import { NetworkMode } from '../../gen/assay/v1/types_pb.js';
import { finished, output, started } from '../clients/typescript/execution-script.ts';
import {
  type DoubleServices,
  refusal,
  type ServerDouble,
  startServerDouble,
} from '../clients/typescript/server-double.ts';
import { runCaptured } from './captured-terminal.ts';

const servers: ServerDouble[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

interface Seen {
  created: CreateSessionRequest[];
  executed: ExecuteRequest[];
  closed: string[];
  input: Buffer[];
}

/** A server whose sessions run everything with the same end. */
async function serve(execute: NonNullable<DoubleServices['execution']>['execute']) {
  const seen: Seen = { created: [], executed: [], closed: [], input: [] };
  const inputEnded = Promise.withResolvers<void>();
  const server = await startServerDouble({
    session: {
      createSession(request) {
        seen.created.push(request);
        const sample = request.sample && { sample: { name: request.sample, instruction: 'Mend it.\n' } };
        return { session: { sessionId: 'ses_1', state: SessionState.READY, ...sample } };
      },
      getSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.READY } }),
      closeSession({ sessionId }) {
        seen.closed.push(sessionId);
        return { session: { sessionId, state: SessionState.CLOSED } };
      },
    },
    sample: {
      async *buildSample() {
        yield { news: { case: 'progress', value: { step: BuildStep.CODE, line: 'Step 1' } } };
        yield { news: { case: 'progress', value: { step: BuildStep.CODE, line: 'Step 2' } } };
        yield { news: { case: 'built', value: { workerId: 'w', image: 'assay/sample:1' } } };
      },
    },
    execution: {
      async *execute(request, context) {
        seen.executed.push(request);
        if (execute !== undefined) return yield* execute(request, context);
        yield started();
        if (request.inputOpen) await inputEnded.promise;
        yield output('stdout', 0, Buffer.from([0, 255, 10]));
        yield output('stderr', 0, 'warned');
        yield finished(3, 6, 7);
      },
      writeInput({ offset, data }) {
        seen.input.push(Buffer.from(data));
        return { nextOffset: offset + BigInt(data.length) };
      },
      closeInput() {
        inputEnded.resolve();
        return {};
      },
    },
  });
  servers.push(server);
  return { endpoint: server.endpoint, seen };
}

test('run creates a session, passes both streams and the exit code on byte for byte, and closes it', async () => {
  const { endpoint, seen } = await serve(undefined);
  const ended = await runCaptured(['run', '--no-stdin', '--memory', '64m', '--', 'printf', '%s', '-x'], endpoint);
  expect(ended.code).toBe(7);
  expect(ended.stdout.equals(Buffer.from([0, 255, 10]))).toBe(true);
  expect(ended.stderr).toBe('warned');
  expect(seen.created[0]?.limits?.memoryBytes).toBe(64n * 2n ** 20n);
  expect(seen.executed[0]?.program).toMatchObject({ case: 'argv', value: { args: ['printf', '%s', '-x'] } });
  expect(seen.closed).toEqual(['ses_1']);
});

test('--network and --allow say what the session can reach; --allow alone is egress', async () => {
  const { endpoint, seen } = await serve(undefined);
  await runCaptured(['run', '--no-stdin', '--network', 'full', '--', 'true', 'x'], endpoint);
  await runCaptured(['run', '--no-stdin', '--allow', 'a.example', '--allow', '*.b.example:22', '--', 'true'], endpoint);
  expect(seen.created.map(({ network }) => network)).toMatchObject([
    { mode: NetworkMode.FULL, allow: [] },
    { mode: NetworkMode.EGRESS, allow: ['a.example', '*.b.example:22'] },
  ]);
  const ended = await runCaptured(['run', '--network', 'none', '--allow', 'a.example', '--', 'true'], endpoint);
  expect(ended.stderr).toContain('found --allow with --network none');
  expect(seen.created).toHaveLength(2);
});

test('one argument and -c are shell text; options after the command belong to the command', async () => {
  const { endpoint, seen } = await serve(undefined);
  await runCaptured(['run', '--no-stdin', '--', 'echo hi | wc -c'], endpoint);
  await runCaptured(['run', '--no-stdin', '-c', 'echo hi', '-e', 'A=b=c', '-w', '/tmp', '-t', '250ms'], endpoint);
  await runCaptured(['run', '--no-stdin', 'ls', '-t', '--memory'], endpoint);
  expect(seen.executed.map((request) => request.program)).toMatchObject([
    { case: 'command', value: 'echo hi | wc -c' },
    { case: 'command', value: 'echo hi' },
    { case: 'argv', value: { args: ['ls', '-t', '--memory'] } },
  ]);
  expect(seen.executed[1]).toMatchObject({
    env: { A: 'b=c' },
    workingDirectory: '/tmp',
    timeout: { seconds: 0n, nanos: 250_000_000 },
    inputOpen: false,
  });
});

test('a sample in front makes the session from it; behind -- it is a command', async () => {
  const { endpoint, seen } = await serve(undefined);
  const lines = [
    ['run', '--no-stdin', 'examples/hello-fix@1.0.0', '--', 'ls', '-l'],
    ['run', '--no-stdin', '-c', 'ls | wc', 'examples/hello-fix'],
    ['run', '--no-stdin', '--', 'examples/hello-fix'],
    ['run', '--no-stdin', './examples/hello-fix'],
  ];
  for (const line of lines) await runCaptured(line, endpoint);
  expect(seen.created.map(({ sample }) => [sample?.datasetId, sample?.sampleId, sample?.version])).toEqual([
    ['examples', 'hello-fix', '1.0.0'],
    ['examples', 'hello-fix', ''],
    [undefined, undefined, undefined],
    [undefined, undefined, undefined],
  ]);
  expect(seen.executed.map((request) => request.program)).toMatchObject([
    { case: 'argv', value: { args: ['ls', '-l'] } },
    { case: 'command', value: 'ls | wc' },
    { case: 'command', value: 'examples/hello-fix' },
    { case: 'command', value: './examples/hello-fix' },
  ]);
  const ended = await runCaptured(['run', 'examples/hello-fix', '--keep'], endpoint);
  expect(ended.stderr).toContain('assay run --keep examples/hello-fix');
});

test('a sample alone makes a session, prints its task and keeps it', async () => {
  const { endpoint, seen } = await serve(undefined);
  const ended = await runCaptured(['run', '--memory', '64m', 'examples/hello-fix'], endpoint);
  expect(ended.stdout.toString()).toMatch(/^session ses_1\n\nMend it\.\n/);
  expect(ended.stderr).toContain('examples/hello-fix is used for the first time: putting its code in place');
  expect(seen.created[0]?.limits?.memoryBytes).toBe(64n * 2n ** 20n);
  expect([seen.executed, seen.closed]).toEqual([[], []]);
});

test('stdin that is no terminal is passed on to its end', async () => {
  const { endpoint, seen } = await serve(undefined);
  const ended = await runCaptured(['exec', 'ses_1', '--', 'cat', '-'], endpoint, 'some input');
  expect(ended.code).toBe(7);
  expect(Buffer.concat(seen.input).toString()).toBe('some input');
  expect(seen.created).toEqual([]);
  expect(seen.closed).toEqual([]);
});

test('--keep leaves the session and says how to use it', async () => {
  const { endpoint, seen } = await serve(undefined);
  const ended = await runCaptured(['run', '--no-stdin', '--keep', '--', 'x', 'y'], endpoint);
  expect(seen.closed).toEqual([]);
  expect(ended.stderr).toContain('assay exec ses_1');
});

test('-o json prints one document a line, text as text and other bytes as base64', async () => {
  const { endpoint } = await serve(undefined);
  const ended = await runCaptured(['run', '-o', 'json', '--no-stdin', '--', 'x', 'y'], endpoint);
  const lines = ended.stdout.toString().trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { type: 'started' },
    { type: 'stdout', offset: 0, base64: 'AP8K' },
    { type: 'stderr', offset: 0, text: 'warned' },
    { type: 'finished', reason: 'EXITED', exitCode: 7, stdoutBytes: 3 },
  ]);
  expect(ended.code).toBe(7);
});

test('a program that cannot be started ends with 127, one sentence, and a closed session', async () => {
  const { endpoint, seen } = await serve(() => {
    throw refusal('PROGRAM_NOT_STARTED', Code.FailedPrecondition, { errno: 'ENOENT' });
  });
  const ended = await runCaptured(['run', '--no-stdin', '--', 'nope', 'x'], endpoint);
  expect(ended.code).toBe(127);
  expect(ended.stderr).toBe('assay: refused: PROGRAM_NOT_STARTED\n');
  expect(seen.closed).toEqual(['ses_1']);
});

test.each([
  [['run'], /found no command to run\n {2}type: assay run -- ls/],
  [['run', '-c', 'x', '--', 'y'], /found both -c and a command/],
  [['run', '--memory', 'much', '--', 'x'], /Give a size such as 512m/],
  [['run', '-o', 'xml', '--', 'x'], /Allowed choices are text, json/],
  [['run', 'a/b', '-o', 'json', '--', 'ls'], /type: assay run -o json a\/b -- ls\n/],
  [['sessions', 'get'], /missing required argument 'session'\n {2}type: assay sessions get --help/],
  [['nonsense'], /unknown command/],
])('%j is wrong usage: exit code 2 and what to type', async (args, message) => {
  const ended = await runCaptured(args, 'http://127.0.0.1:1');
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(message);
  expect(ended.stderr).toContain('type: ');
});

test('--version tells that of the command', async () => {
  const { stdout, code } = await runCaptured(['--version'], 'http://127.0.0.1:1');
  expect([stdout.toString(), code]).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+\n$/), 0]);
});

test('without a server: exit code 125, what was found and what to type, also as JSON', async () => {
  const text = await runCaptured(['info'], 'http://127.0.0.1:1');
  expect(text.code).toBe(125);
  expect(text.stderr).toMatch(/^assay: no server answers at http:\/\/127\.0\.0\.1:1 .*\n {2}type: npm start.*\n$/);
  const json = await runCaptured(['info', '-o', 'json'], 'http://127.0.0.1:1');
  expect(JSON.parse(json.stderr)).toMatchObject({ error: { reason: 'SERVER_UNREACHABLE' } });
});
