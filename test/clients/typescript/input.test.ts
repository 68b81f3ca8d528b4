import { randomBytes, randomInt } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { createClient, type Session } from '../../../clients/typescript/index.ts';
import { finished, output, started } from './execution-script.ts';
import { refusal, startServerDouble, unavailable } from './server-double.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Sink {
  taken: Buffer[];
  size: number;
  ended: PromiseWithResolvers<void>;
}

/** A double of `cat >/dev/null; echo ok`: takes part of some pieces, and loses some answers on the way back. */
async function connect(loseAnswers: boolean): Promise<{ session: Session; sink: Sink }> {
  const sink: Sink = { taken: [], size: 0, ended: Promise.withResolvers<void>() };
  let lostInARow = 0;
  const server = await startServerDouble({
    session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) },
    execution: {
      async *execute() {
        yield started();
        await sink.ended.promise;
        yield output('stdout', 0, 'ok');
        yield finished(2);
      },
      writeInput({ offset, data, end }) {
        const skip = sink.size - Number(offset);
        if (skip < 0) throw refusal('INPUT_OFFSET', Code.OutOfRange);
        const part = loseAnswers ? data.subarray(skip, skip + randomInt(1, data.length + 1)) : data.subarray(skip);
        sink.taken.push(Buffer.from(part));
        sink.size += part.length;
        if (end && sink.size === Number(offset) + data.length) sink.ended.resolve();
        // Never so often that the client would be right to give up.
        lostInARow = loseAnswers && lostInARow < 3 && randomInt(3) === 0 ? lostInARow + 1 : 0;
        if (lostInARow > 0) throw unavailable();
        return { nextOffset: BigInt(sink.size) };
      },
      closeInput() {
        sink.ended.resolve();
        return { inputBytes: BigInt(sink.size) };
      },
    },
  });
  const client = createClient({ endpoint: server.endpoint, reconnectTimeoutMs: 60_000 });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  return { session: await client.sessions.get('ses_1'), sink };
}

test('input arrives once and whole although answers get lost and pieces are taken in part', async () => {
  const { session, sink } = await connect(true);
  const input = randomBytes(1_500_000);
  const result = await session.run('cat', { input });
  expect(result.stdout.toString()).toBe('ok');
  expect(Buffer.concat(sink.taken).equals(input)).toBe(true);
});

test('writes that are not awaited arrive in order', async () => {
  const { session, sink } = await connect(false);
  const execution = session.execute('cat', { input: true });
  const writes = ['one ', 'two ', 'three'].map((word) => execution.stdin.write(word));
  await Promise.all([...writes, execution.stdin.end()]);
  await execution.stdin.end();
  await expect(execution.stdin.write('late')).rejects.toMatchObject({ reason: 'INPUT_CLOSED' });
  await execution.result();
  expect(Buffer.concat(sink.taken).toString()).toBe('one two three');
});

test('empty input is an end and nothing else', async () => {
  const { session, sink } = await connect(false);
  const result = await session.run('cat', { input: '' });
  expect(result.exitCode).toBe(0);
  expect(sink.size).toBe(0);
});

test('a command that ends without reading its input is no error', async () => {
  const server = await startServerDouble({
    session: { getSession: () => ({ session: { sessionId: 'ses_1' } }) },
    execution: {
      async *execute() {
        yield started();
        yield finished(0);
      },
      writeInput() {
        throw refusal('EXECUTION_ENDED', Code.FailedPrecondition);
      },
    },
  });
  const client = createClient({ endpoint: server.endpoint });
  cleanups.push(
    () => server.stop(),
    () => client.close(),
  );
  const session = await client.sessions.get('ses_1');
  await expect(session.run('true', { input: 'unread' })).resolves.toMatchObject({ exitCode: 0 });
});
