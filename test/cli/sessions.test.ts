import { afterEach, expect, test } from 'vitest';
import { ExecutionState } from '../../gen/assay/v1/execution_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { finished, output, started } from '../clients/typescript/execution-script.ts';
import { type DoubleServices, type ServerDouble, startServerDouble } from '../clients/typescript/server-double.ts';
import { runCaptured } from './captured-terminal.ts';

const servers: ServerDouble[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function serve(services: DoubleServices): Promise<string> {
  const server = await startServerDouble(services);
  servers.push(server);
  return server.endpoint;
}

test('sessions ls asks for live sessions, with -a for all, and by label', async () => {
  const asked: unknown[] = [];
  const endpoint = await serve({
    session: {
      listSessions({ states, labels }) {
        asked.push({ ended: states.length === 0 || states.includes(SessionState.CLOSED), labels });
        return { sessions: [{ sessionId: 'ses_1', state: SessionState.READY, labels: { team: 'a' } }] };
      },
    },
  });
  const text = await runCaptured(['sessions', 'ls', '--label', 'team=a'], endpoint);
  expect(text.stdout.toString()).toMatch(/^SESSION +STATE .*\nses_1 +READY .*team=a\n$/);
  const json = await runCaptured(['sessions', 'ls', '-a', '-o', 'json'], endpoint);
  expect(JSON.parse(json.stdout.toString())).toMatchObject([{ id: 'ses_1', state: 'READY', labels: { team: 'a' } }]);
  expect(asked).toEqual([
    { ended: false, labels: { team: 'a' } },
    { ended: true, labels: {} },
  ]);
});

test('sessions create prints the id alone', async () => {
  const endpoint = await serve({
    session: { createSession: ({ env }) => ({ session: { sessionId: `ses_${env.A}`, state: SessionState.READY } }) },
  });
  const made = await runCaptured(['sessions', 'create', '-e', 'A=1', '--ttl', '5m'], endpoint);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  expect(made.stdout.toString()).toBe('ses_1\n');
});

test('fork prints the id of the fork alone, and passes on what is to be different', async () => {
  const asked: unknown[] = [];
  const endpoint = await serve({
    session: {
      getSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.READY } }),
      forkSession({ sessionId, env, labels, limits }) {
        asked.push({ sessionId, env, labels: labels?.labels, pids: limits?.pids });
        return { session: { sessionId: 'ses_2', forkedFrom: sessionId, state: SessionState.READY } };
      },
    },
  });
  const made = await runCaptured(['fork', 'ses_1', '-e', 'A=1', '--label', 'b=c', '--pids', '64'], endpoint);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  expect(made.stdout.toString()).toBe('ses_2\n');
  await runCaptured(['fork', 'ses_1'], endpoint);
  expect(asked).toEqual([
    { sessionId: 'ses_1', env: { A: '1' }, labels: { b: 'c' }, pids: 64 },
    { sessionId: 'ses_1', env: {}, labels: undefined, pids: undefined },
  ]);
});

test('logs prints one execution after the other; without -f a running one only up to now', async () => {
  const endpoint = await serve({
    session: { getSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.READY } }) },
    execution: {
      listExecutions: () => ({
        executions: [
          { executionId: 'exe_1', state: ExecutionState.FINISHED, summary: 'echo one', stdoutBytes: 4n },
          { executionId: 'exe_2', state: ExecutionState.RUNNING, summary: 'echo two; sleep 1000', stdoutBytes: 4n },
        ],
      }),
      async *attach({ executionId, followBackground }, context) {
        expect(followBackground).toBe(true);
        yield started();
        if (executionId === 'exe_1') {
          yield output('stdout', 0, 'one\n');
          return yield finished(4);
        }
        yield output('stdout', 0, 'two\n');
        await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      },
    },
  });
  const logs = await runCaptured(['logs', 'ses_1'], endpoint);
  expect(logs.stdout.toString()).toBe('one\ntwo\n');
  expect(logs.stderr).toBe('==> exe_1 echo one\n==> exe_2 echo two; sleep 1000\n');
});

test('logs -f goes on with executions to come until the session ends', async () => {
  let asked = 0;
  const endpoint = await serve({
    session: {
      getSession: ({ sessionId }) => ({
        session: { sessionId, ...(asked < 3 ? {} : { state: SessionState.CLOSED, endTime: { seconds: 1n } }) },
      }),
    },
    execution: {
      listExecutions() {
        const ids = ['exe_1', 'exe_2', 'exe_3'].slice(0, ++asked);
        return { executions: ids.map((executionId) => ({ executionId, state: ExecutionState.RUNNING })) };
      },
      async *attach({ executionId, followBackground }) {
        expect(followBackground).toBe(true);
        yield started();
        yield output('stdout', 0, `${executionId}\n`);
        yield finished(6);
      },
    },
  });
  const logs = await runCaptured(['logs', '-f', 'ses_1', '-o', 'json'], endpoint);
  const lines = logs.stdout.toString().trimEnd().split('\n');
  const texts = lines.map((line) => JSON.parse(line)).filter((event) => event.type === 'stdout');
  expect(texts).toMatchObject([
    { execution: 'exe_1', text: 'exe_1\n' },
    { execution: 'exe_2', text: 'exe_2\n' },
    { execution: 'exe_3', text: 'exe_3\n' },
  ]);
});
