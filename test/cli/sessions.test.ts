import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
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

test('sessions close tells what was closed, and then of the one that could not be', async () => {
  const endpoint = await serve({
    session: {
      getSession({ sessionId }) {
        if (sessionId === 'ses_2') throw refusal('SESSION_NOT_FOUND', Code.NotFound);
        return { session: { sessionId, state: SessionState.READY } };
      },
      closeSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.CLOSED } }),
    },
  });
  const ended = await runCaptured(['sessions', 'close', 'ses_1', 'ses_2', 'ses_3'], endpoint);
  expect(ended.stdout.toString()).toBe('ses_1 CLOSED\nses_3 CLOSED\n');
  expect(ended).toMatchObject({ code: 125, stderr: expect.stringContaining('SESSION_NOT_FOUND') });
});

test('a key without the scope is told which one to make', async () => {
  const endpoint = await serve({
    session: {
      listSessions() {
        throw refusal('SCOPE_MISSING', Code.PermissionDenied, { scope: 'grader' });
      },
    },
  });
  const ended = await runCaptured(['sessions', 'ls'], endpoint);
  expect(ended.stderr).toMatch(/\n {2}type: assay keys create --scope grader, with an admin key/);
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
