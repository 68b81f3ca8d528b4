import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  createServer,
  type Http2Server,
  type Http2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ExecutionLine } from '../../services/sessions/execution/execution-stream.ts';
import { createUnreadBudgets } from '../../services/sessions/execution/unread-budget.ts';
import { createGrpcCall } from '../../services/sessions/relay/grpc-call.ts';
import { relay } from '../../services/sessions/relay/relay.ts';
import { unsentMemoryOf } from '../../services/sessions/relay/unsent-memory.ts';
import type { LineEvents } from '../../services/sessions/worker/worker-line.ts';

let server: Http2Server;
let client: ClientHttp2Session;

beforeEach(async () => {
  server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
afterEach(() => {
  client.destroy();
  server.close();
});

/** A call that is relayed from a line which the test holds the other end of. */
async function relayed() {
  const asked = client.request({ ':method': 'POST', ':path': '/x' });
  asked.on('error', () => {});
  asked.end();
  const [stream, headers] = (await once(server, 'stream')) as [ServerHttp2Stream, Record<string, string>];
  stream.on('error', () => {});
  let events: LineEvents | undefined;
  const line = {
    read(given: LineEvents) {
      events = given;
    },
    resume() {},
    close() {},
  };
  const opened: ExecutionLine = {
    ...{ line, address: 'a', sessionId: 's', executionId: 'e' },
    explain: async (error) => error,
    unread: createUnreadBudgets().of('project'),
  };
  const done = relay(createGrpcCall(stream, headers, 'r'), opened);
  events?.begin();
  await once(asked, 'response');
  return { asked, stream, done, events: events as LineEvents };
}

/** Collects garbage now, so that what is still held can be told from what is not. */
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('memory that may still be leaving is held until a ping was answered', async () => {
  const pings: (() => void)[] = [];
  const session = { destroyed: false, ping: (answered: () => void) => pings.push(answered) } as unknown as Http2Session;
  const memory = unsentMemoryOf(session);
  const refs = ['first', 'second'].map((fill) => {
    const bytes = Buffer.alloc(100_000, fill);
    memory.hold(bytes);
    return new WeakRef(bytes.buffer);
  });
  const alive = async (): Promise<boolean[]> => {
    // What a WeakRef points to lives to the end of the turn.
    await new Promise(setImmediate);
    collect();
    return refs.map((ref) => ref.deref() !== undefined);
  };
  expect(await alive()).toEqual([true, true]);
  expect(pings).toHaveLength(1);
  pings.shift()?.();
  expect(await alive()).toEqual([false, true]);
  pings.shift()?.();
  expect(await alive()).toEqual([false, false]);
  expect(pings).toHaveLength(0);
});

describe('a client that takes its answer', () => {
  const patienceMs = 250;

  async function answered(whole: Buffer) {
    const asked = client.request({ ':method': 'POST', ':path': '/x' });
    asked.on('error', () => {});
    asked.end();
    const [stream, headers] = (await once(server, 'stream')) as [ServerHttp2Stream, Record<string, string>];
    stream.on('error', () => {});
    const call = createGrpcCall(stream, headers, 'r', patienceMs);
    call.begin();
    call.write(whole);
    call.end({ 'grpc-status': '0' });
    return { asked, stream };
  }

  test('slowly gets all of it, and its status', async () => {
    const whole = Buffer.alloc(2 * 1_048_576, 'x');
    const { asked } = await answered(whole);
    const status = once(asked, 'trailers');
    const began = performance.now();
    let bytes = 0;
    let rest = 0;
    for await (const chunk of asked as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      rest += chunk.length;
      if (rest < 131_072) continue;
      // So slowly that the server would have lost its patience with one that takes nothing.
      rest = 0;
      await delay(patienceMs / 5);
    }
    expect(bytes).toBe(whole.length);
    expect(performance.now() - began).toBeGreaterThan(patienceMs);
    expect((await status)[0]).toMatchObject({ 'grpc-status': '0' });
  });

  test('not at all is let go', async () => {
    client.destroy();
    client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      settings: { initialWindowSize: 1 },
    });
    const { asked, stream } = await answered(Buffer.alloc(100));
    asked.pause();
    await once(stream, 'close');
  });
});

test('memory is given back once its bytes have left', async () => {
  const { asked, events } = await relayed();
  const released = new Promise<void>((resolve) => events.frames(Buffer.alloc(100_000), resolve));
  asked.resume();
  await released;
});

test('memory of a call that was cut off is never given back: its bytes may still be leaving', async () => {
  const { asked, stream, done, events } = await relayed();
  let released = 0;
  // The client reads nothing: its window takes the beginning, and the rest waits.
  for (let i = 0; i < 8; i++) {
    events.frames(Buffer.alloc(262_144), () => {
      released += 1;
    });
  }
  const closed = once(stream, 'close');
  asked.close(8);
  await closed;
  expect(await done).toBeUndefined();
  await new Promise(setImmediate);
  expect(released).toBe(0);
});
