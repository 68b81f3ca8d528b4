import { once } from 'node:events';
import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';

/** More than the 4,096 that the service takes by default, from more addresses than may share half of them. */
const strangers = 6_000;
const addresses = 8;
const atOnce = 100;

let stack: TestStack;
const open = new Set<ClientHttp2Session>();
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  for (const session of open) session.destroy();
  await stack?.stop();
});

/** A connection without a key that answers pings, as any HTTP/2 client does. */
async function openIdle(index: number): Promise<void> {
  const { hostname, port } = new URL(stack.endpoint);
  const localAddress = `127.0.0.${2 + (index % addresses)}`;
  const session = connect(stack.endpoint, {
    createConnection: () => connectTcp({ host: hostname, port: Number(port), localAddress }),
  });
  session.on('error', () => {});
  open.add(session.on('close', () => open.delete(session)));
  await Promise.race([once(session, 'remoteSettings'), once(session, 'close')]);
}

test('thousands of idle connections without a key keep nobody out, old clients and new ones', async () => {
  const session = await stack.client.sessions.create({});
  for (let index = 0; index < strangers; index += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, each) => openIdle(index + each)));
    expect((await session.run(['true'])).exitCode).toBe(0);
  }
  expect(open.size).toBeGreaterThan(3_000);
  expect(open.size).toBeLessThanOrEqual(4_096);
  for (let count = 0; count < 20; count++) {
    using client = createClient({ endpoint: stack.endpoint, apiKey: stack.key });
    expect((await client.sessions.get(session.id)).info.state).toBe('READY');
  }
  expect((await fetch(`${stack.endpoint}/healthz`)).status).toBe(200);
  await session.close();
});
