import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestStack, type TestStack } from '../e2e/stack.ts';

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Asks for the transcript of a session so often, each time on a connection of its own, and reads nothing. Returns how to leave. */
async function askAndReadNothing(times: number, key: string, sessionId: string): Promise<() => void> {
  const { hostname, port } = new URL(stack.endpoint);
  const message = Buffer.from(JSON.stringify({ sessionId }));
  const length = Buffer.alloc(5);
  length.writeUInt32BE(message.length, 1);
  const head = [
    'POST /assay.v1.ExecutionService/GetTranscript HTTP/1.1',
    'host: x',
    `authorization: Bearer ${key}`,
    'content-type: application/connect+json',
    `content-length: ${length.length + message.length}`,
  ].join('\r\n');
  const sockets = Array.from({ length: times }, () => {
    const socket = connect(Number(port), hostname).pause();
    socket.write(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), length, message]));
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

test('transcripts that one project asks for and does not read keep no other from the worker, then and afterwards', async () => {
  const { secret } = await stack.client.keys.create({ project: 'greedy', scopes: ['AGENT'] });
  const greedy = await stack.clientWith({ project: 'greedy', scopes: ['AGENT'] });
  const modest = await stack.clientWith({ project: 'modest', scopes: ['AGENT'] });
  const long = await greedy.sessions.create();
  await long.run(['head', '-c', '20000000', '/dev/zero'], { maxOutputBytes: 1 });
  const own = await modest.sessions.create();
  const works = async (): Promise<void> => {
    expect((await own.run(['echo', 'a'])).stdout.toString()).toBe('a\n');
    await (await modest.sessions.create()).close();
  };
  for (let round = 0; round < 3; round++) {
    const leave = await askAndReadNothing(100, secret, long.id);
    // While what nobody reads piles up as far as it can.
    for (let count = 0; count < 20; count++) await works();
    leave();
    await works();
  }
  await long.close();
  await own.close();
});
