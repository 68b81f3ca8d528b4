import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EndReason, ExecutionEventSchema } from '../../gen/assay/v1/execution_pb.js';
import { finished, output, started } from '../clients/typescript/execution-script.ts';
import { type DoubleServices, startServerDouble } from '../clients/typescript/server-double.ts';

const assay = fileURLToPath(new URL('../../cli/assay.mjs', import.meta.url));
const cleanups: (() => unknown)[] = [];
beforeEach(() => {
  // The double's adapter complains of each write that the end of a client interrupts.
  const complaints = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  cleanups.push(() => complaints.mockRestore());
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Starts the real command in a directory that is not the checkout, against a double. */
async function start(
  args: string[],
  execution: NonNullable<DoubleServices['execution']>,
  stdout: 'pipe' | number = 'pipe',
) {
  const closed: string[] = [];
  const server = await startServerDouble({
    session: {
      createSession: () => ({ session: { sessionId: 'ses_1' } }),
      closeSession({ sessionId }) {
        closed.push(sessionId);
        return { session: { sessionId } };
      },
    },
    execution,
  });
  cleanups.push(() => server.stop());
  const child = spawn(process.execPath, [assay, ...args], {
    cwd: tmpdir(),
    env: { ...process.env, ASSAY_ENDPOINT: server.endpoint, ASSAY_API_KEY: 'assay_a_b' },
    stdio: ['pipe', stdout, 'pipe'],
  }) as ChildProcessWithoutNullStreams;
  cleanups.push(() => child.kill('SIGKILL'));
  return { child, closed, ended: endOf(child) };
}

async function endOf(child: ChildProcessWithoutNullStreams): Promise<{ code: number | null; stderr: string }> {
  const stderr: Buffer[] = [];
  child.stderr.on('data', (piece: Buffer) => stderr.push(piece));
  const [code] = await once(child, 'close');
  return { code, stderr: Buffer.concat(stderr).toString() };
}

const piece = new Uint8Array(128 * 1024).fill(121);

function endless(sent: { pieces: number }, stop: AbortSignal) {
  return async function* () {
    yield started();
    while (!stop.aborted) yield output('stdout', sent.pieces++ * piece.length, piece);
  };
}

test('a reader that goes away ends the command quietly and closes the session', async () => {
  const cancelled = new AbortController();
  const { child, closed, ended } = await start(['run', '--no-stdin', '--', 'yes', 'y'], {
    execute: endless({ pieces: 0 }, cancelled.signal),
    cancelExecution() {
      cancelled.abort();
      return {};
    },
  });
  await once(child.stdout, 'data');
  child.stdout.destroy();
  expect(await ended).toEqual({ code: 141, stderr: '' });
  expect(cancelled.signal.aborted).toBe(true);
  expect(closed).toEqual(['ses_1']);
});

test('a reader that stalls holds the server back', async () => {
  const sent = { pieces: 0 };
  const enough = new AbortController();
  cleanups.push(() => enough.abort());
  const { child } = await start(['run', '--no-stdin', '--', 'yes', 'y'], { execute: endless(sent, enough.signal) });
  child.stdout.pause();
  await once(child.stdout, 'readable');
  // The sender is stalled once it stays where it is from one look to the next.
  await expect
    .poll(() => {
      const before = sent.pieces;
      return new Promise((resolve) => setTimeout(() => resolve(before > 1 && sent.pieces === before), 100));
    })
    .toBe(true);
  expect(sent.pieces * piece.length).toBeLessThan(32 * 1024 * 1024);
});

test('Ctrl-C cancels the command, what it still writes is shown, and the session is closed', async () => {
  const cancelled = Promise.withResolvers<void>();
  const { child, closed, ended } = await start(['run', '--no-stdin', '--', 'sleep', '1000'], {
    async *execute() {
      yield started();
      yield output('stdout', 0, 'running\n');
      await cancelled.promise;
      yield output('stdout', 8, 'cleaned up\n');
      const result = { reason: EndReason.CANCELLED, signal: 15, stdoutBytes: 19n };
      yield { event: create(ExecutionEventSchema, { event: { case: 'finished', value: { result } } }) };
    },
    cancelExecution() {
      cancelled.resolve();
      return {};
    },
  });
  const stdout: Buffer[] = [];
  child.stdout.on('data', (data: Buffer) => stdout.push(data));
  await once(child.stdout, 'data');
  child.kill('SIGINT');
  expect(await ended).toEqual({ code: 130, stderr: 'assay: the command was cancelled\n' });
  expect(Buffer.concat(stdout).toString()).toBe('running\ncleaned up\n');
  expect(closed).toEqual(['ses_1']);
});

test('a command that ends while stdin stays open ends the process', async () => {
  const { ended } = await start(['run', '--', 'true', 'x'], {
    async *execute() {
      yield started();
      yield finished(0, 0, 3);
    },
  });
  expect(await ended).toEqual({ code: 3, stderr: '' });
});

test('a file that takes no more is told', async () => {
  const full = openSync('/dev/full', 'w');
  cleanups.push(() => closeSync(full));
  const execution = {
    async *execute() {
      yield started();
      yield output('stdout', 0, piece);
      yield finished(piece.length, 0, 0);
    },
    cancelExecution: () => ({}),
  };
  const { ended } = await start(['run', '--no-stdin', '--', 'yes', 'y'], execution, full);
  expect(await ended).toEqual({ code: 125, stderr: expect.stringContaining('ENOSPC') });
});
