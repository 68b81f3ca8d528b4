import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { type Client, createClient, type Session } from '../../../clients/typescript/index.ts';
import { type SessionEvent, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { type DoubleServices, refusal, startServerDouble, unavailable } from './server-double.ts';
import { became, began, ended, lost, quiet, wrote } from './session-script.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function sessionOf(services: DoubleServices): Promise<Session> {
  const server = await startServerDouble({
    ...services,
    session: { getSession: ({ sessionId }) => ({ session: { sessionId } }), ...services.session },
  });
  const client: Client = createClient({ endpoint: server.endpoint, reconnectTimeoutMs: 60_000 });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  return client.sessions.get('ses_1');
}

const log = [
  became('c0', SessionState.CREATING),
  became('c1', SessionState.READY),
  began('c2', 'e1', 'echo hi'),
  wrote('c3', 'e1', 0, 'hi\n'),
  lost('c4', 'e1', 3, 9),
  ended('c5', 'e1', 3),
  became('c6', SessionState.CLOSED, 'done'),
];

/** The log after a cursor. */
function after(cursor: string): SessionEvent[] {
  return log.slice(log.findIndex((event) => event.cursor === cursor) + 1);
}

test('follow gives every event once although the stream breaks after each', async () => {
  const asked: string[] = [];
  const session = await sessionOf({
    session: {
      async *followSession({ cursor }) {
        asked.push(cursor);
        const [next] = after(cursor);
        yield { event: quiet() };
        if (next === undefined) return;
        yield { event: next };
        throw unavailable();
      },
    },
  });
  const events = await Array.fromAsync(session.follow());
  const told = events.filter(({ type }) => type !== 'heartbeat');
  expect(told.map(({ type }) => type)).toEqual(['state', 'state', 'started', 'stdout', 'gap', 'finished', 'state']);
  expect(told.map(({ cursor }) => cursor)).toEqual(['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6']);
  expect(asked).toEqual(['', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6']);
  expect(told[2]).toMatchObject({ executionId: 'e1', summary: 'echo hi', time: new Date(1000) });
  expect(told[5]).toMatchObject({ result: { reason: 'EXITED', exitCode: 3 } });
});

test('follow begins after a given cursor, asks for no output where none is wanted, and ends with an error that stays', async () => {
  const session = await sessionOf({
    session: {
      async *followSession({ cursor, withoutOutput }) {
        if (cursor === 'bad') throw refusal('INVALID_CURSOR', Code.InvalidArgument);
        expect([cursor, withoutOutput]).toEqual(['c4', true]);
        for (const event of after(cursor)) yield { event };
      },
    },
  });
  const events = await Array.fromAsync(session.follow({ cursor: 'c4', output: false }));
  expect(events.map(({ cursor }) => cursor)).toEqual(['c5', 'c6']);
  await expect(Array.fromAsync(session.follow({ cursor: 'bad' }))).rejects.toMatchObject({ reason: 'INVALID_CURSOR' });
});

test('whoever leaves the loop or aborts ends the call', async () => {
  const left = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let calls = 0;
  const session = await sessionOf({
    session: {
      async *followSession(_, context) {
        const { resolve } = left[calls++] as PromiseWithResolvers<void>;
        context.signal.addEventListener('abort', () => resolve());
        yield { event: log[0] as SessionEvent };
        await new Promise(() => {});
      },
    },
  });
  for await (const _ of session.follow()) break;
  await left[0]?.promise;
  const stop = new AbortController();
  const events = session.follow({ signal: stop.signal });
  await events.next();
  stop.abort();
  await expect(events.next()).rejects.toMatchObject({ reason: 'DETACHED' });
  await left[1]?.promise;
});

test('a transcript resumes too, and names the execution that is wanted', async () => {
  const executions = log.filter(({ event }) => event.case === 'execution');
  const session = await sessionOf({
    execution: {
      async *getTranscript({ cursor, executionId }) {
        expect(executionId).toBe('e1');
        const rest = executions.slice(executions.findIndex((event) => event.cursor === cursor) + 1);
        for (const { cursor: next, event } of rest.slice(0, 2)) {
          if (event.case === 'execution') yield { cursor: next, event: event.value };
        }
        if (rest.length > 2) throw unavailable();
      },
    },
  });
  const events = await Array.fromAsync(session.transcript({ executionId: 'e1' }));
  expect(events.map(({ type }) => type)).toEqual(['started', 'stdout', 'gap', 'finished']);
});
