import { afterEach, expect, test } from 'vitest';
import { createClient, type Session } from '../../../clients/typescript/index.ts';
import { awaitingInput, finished, output, started } from './execution-script.ts';
import { type DoubleServices, startServerDouble } from './server-double.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function connect(execution: NonNullable<DoubleServices['execution']>): Promise<Session> {
  const server = await startServerDouble({
    session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) },
    execution,
  });
  const client = createClient({ endpoint: server.endpoint, reconnectTimeoutMs: 60_000 });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  return client.sessions.get('ses_1');
}

test('a wait that every new stream tells of is told once', async () => {
  let attached = 0;
  const session = await connect({
    async *execute() {
      yield started();
      yield output('stdout', 0, '> ');
      yield awaitingInput(0);
    },
    async *attach() {
      yield started();
      if (attached++ > 0) yield output('stdout', 2, 'tick');
      yield awaitingInput(0);
      if (attached > 2) yield finished(6);
    },
  });
  const types: string[] = [];
  for await (const event of session.execute('cat', { input: true })) types.push(event.type);
  expect(types).toEqual(['started', 'stdout', 'awaitingInput', 'stdout', 'awaitingInput', 'finished']);
});

test('a wait for input that was given since does not count', async () => {
  const given = Promise.withResolvers<void>();
  const session = await connect({
    async *execute() {
      yield started();
      yield awaitingInput(0);
      await given.promise;
      yield awaitingInput(1);
      yield output('stdout', 0, 'both');
      yield awaitingInput(4);
      yield finished(4);
    },
    writeInput({ offset, data }) {
      given.resolve();
      return { nextOffset: offset + BigInt(data.length) };
    },
  });
  const execution = session.execute('cat', { input: true });
  expect(await execution.awaitingInput()).toMatchObject({ awaiting: 'READING', stdout: Buffer.alloc(0) });
  const writing = execution.stdin.write('abcd');
  expect(await execution.awaitingInput()).toMatchObject({ awaiting: 'READING', stdout: Buffer.from('both') });
  await writing;
  expect(await execution.awaitingInput()).toMatchObject({ awaiting: undefined, result: { exitCode: 0 } });
  expect(await execution.result()).toMatchObject({ exitCode: 0 });
});

test('the result can be asked for in the middle of a dialogue', async () => {
  const session = await connect({
    async *execute() {
      yield started();
      yield awaitingInput(0);
      yield output('stdout', 0, 'rest');
      yield finished(4, 0, 5);
    },
  });
  const execution = session.execute('cat', { input: true });
  await execution.awaitingInput();
  expect(await execution.result()).toMatchObject({ exitCode: 5 });
  expect(() => execution[Symbol.asyncIterator]()).toThrow(/being read/);
});
