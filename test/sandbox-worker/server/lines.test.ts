import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { attachPath, type HotStreams } from '../../../services/sandbox-worker/server/hot-streams.ts';
import { createLines } from '../../../services/sandbox-worker/server/lines.ts';

test('a caller that goes away in the middle of its request is no failure of the worker', async () => {
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => void logged.push(line) });
  const lines = createLines({} as HotStreams, () => true, log);
  lines.listen(0, '127.0.0.1');
  await once(lines, 'listening');
  const socket = connect((lines.address() as AddressInfo).port, '127.0.0.1');
  socket.write(`POST ${attachPath} HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf`);
  const [request] = await once(lines, 'request');
  const closed = new Promise((resolve) => request.once('close', resolve));
  socket.resetAndDestroy();
  await closed;
  await new Promise(setImmediate);
  expect(logged).toEqual([]);
  lines.close();
});
