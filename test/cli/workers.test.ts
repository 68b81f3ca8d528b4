import { Code } from '@connectrpc/connect';
import { afterEach, expect, test } from 'vitest';
import { WorkerState } from '../../gen/assay/v1/worker_pb.js';
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

async function serve(workers: NonNullable<DoubleServices['workers']>): Promise<string> {
  const made = await startServerDouble({ workers });
  servers.push(made);
  return made.endpoint;
}

test('workers ls shows which ones take sessions', async () => {
  const endpoint = await serve({
    listWorkers: ({ pageToken }) =>
      pageToken === ''
        ? {
            workers: [
              {
                workerId: 'wrk-1',
                state: WorkerState.READY,
                sessionCount: 3,
                sessionCapacity: 10,
                warmCount: 1,
                warmCapacity: 2,
              },
              { workerId: 'wrk-2', state: WorkerState.SILENT, drained: true, sessionCount: 1, capabilities: ['fork'] },
            ],
            nextPageToken: 'next',
          }
        : { workers: [{ workerId: 'wrk-3', state: WorkerState.DRAINED, drained: true }] },
  });
  const { stdout } = await runCaptured(['workers', 'ls'], endpoint);
  const lines = stdout.toString().split('\n');
  expect(lines[1]).toMatch(/^wrk-1 +READY +3 +10 +1\/2/);
  expect(lines[2]).toMatch(/^wrk-2 +SILENT \(drained\) +1 +0 +0\/0 +fork/);
});

test('workers drain and undrain tell what the worker does then', async () => {
  const endpoint = await serve({
    drainWorker: ({ workerId, undo }) => ({ worker: { workerId, drained: !undo, sessionCount: 2 } }),
  });
  const drained = await runCaptured(['workers', 'drain', 'wrk-1'], endpoint);
  expect(drained.stdout.toString()).toBe('wrk-1 takes no new sessions, and has 2\n');
  const undrained = await runCaptured(['workers', 'undrain', 'wrk-1'], endpoint);
  expect(undrained.stdout.toString()).toBe('wrk-1 takes sessions again\n');
});

test('workers forget tells how many sessions are LOST', async () => {
  const endpoint = await serve({
    forgetWorker: ({ workerId }) => ({ lostSessionCount: workerId === 'wrk-2' ? 2 : 0 }),
  });
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
