import { once } from 'node:events';
import { type ClientHttp2Session, connect, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ExecutionLine } from '../../services/sessions/execution/execution-stream.ts';
import { createGrpcCall } from '../../services/sessions/relay/grpc-call.ts';
import { relay } from '../../services/sessions/relay/relay.ts';
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
  };
  const done = relay(createGrpcCall(stream, headers, 'r'), opened);
  events?.begin();
  await once(asked, 'response');
  return { asked, stream, done, events: events as LineEvents };
}

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
