import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
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

async function serve(server: NonNullable<DoubleServices['server']>): Promise<string> {
  const made = await startServerDouble({ server });
  servers.push(made);
  return made.endpoint;
}

test('workers ls shows which ones answer', async () => {
  const endpoint = await serve({
    getServerInfo: () => ({
      workers: [
        { workerId: 'wrk-1', reachable: true, sessions: 3, capacity: 10, warm: 1, warmCapacity: 2 },
        { workerId: 'wrk-2', sessions: 1, capacity: 10, capabilities: ['fork'] },
      ],
    }),
  });
  const { stdout } = await runCaptured(['workers', 'ls'], endpoint);
  const lines = stdout.toString().split('\n');
  expect(lines[1]).toMatch(/^wrk-1 +yes +3 +10 +1\/2/);
  expect(lines[2]).toMatch(/^wrk-2 +no +1 +10 +0\/0 +fork/);
});

test('workers forget tells how many sessions are LOST', async () => {
  const endpoint = await serve({ forgetWorker: ({ workerId }) => ({ sessionsLost: workerId === 'wrk-2' ? 2 : 0 }) });
  const ended = await runCaptured(['workers', 'forget', 'wrk-2'], endpoint);
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  expect(ended.stdout.toString()).toBe('wrk-2 forgotten, 2 sessions LOST\n');
});

test('a worker that lives is refused with what to type', async () => {
  const endpoint = await serve({
    forgetWorker() {
      throw refusal('WORKER_ALIVE', Code.FailedPrecondition);
    },
  });
  const ended = await runCaptured(['workers', 'forget', 'wrk-1'], endpoint);
  expect(ended).toMatchObject({ code: 125, stderr: expect.stringContaining('WORKER_ALIVE') });
});
