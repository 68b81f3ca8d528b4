import { create } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { EndReason } from '../../../gen/assay/v1/execution_pb.js';
import { OpenShellRequestSchema } from '../../../gen/assay/v1/shell_pb.js';
import {
  failedStep,
  forget,
  input,
  inputEnd,
  signal,
  signalScope,
} from '../../../services/sandbox-worker/guest/frame.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { createStandInSandbox, exited, type StandInSandbox } from './stand-in-sandbox.ts';

/** For how many writes the disk has room. */
const disk = vi.hoisted(() => ({ room: Number.POSITIVE_INFINITY }));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const writeSync = (...args: Parameters<typeof fs.writeSync>): number => {
    if (disk.room-- > 0) return fs.writeSync(...args);
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  };
  return { ...fs, writeSync };
});

let sandbox: StandInSandbox;
beforeEach(() => {
  disk.room = Number.POSITIVE_INFINITY;
  vi.useFakeTimers();
  sandbox = createStandInSandbox();
});
afterEach(() => {
  sandbox.remove();
  vi.useRealTimers();
});

/** A shell that is open. */
async function openShell(shellId: string): Promise<void> {
  const { executions } = sandbox;
  const opening = executions.shells.open(create(OpenShellRequestSchema, { shellId }));
  executions.shell(executions.shells.find(shellId).number, 100, 1);
  await opening;
}

test('a timeout that cannot be recorded fails its sandbox alone', () => {
  const { executions, journal, failures } = sandbox;
  const execution = sandbox.execute({ executionId: 'one', timeout: durationFromMs(500) });
  executions.started(execution.number, 100);
  journal.close();
  vi.advanceTimersByTime(500);
  expect(failures).toEqual([expect.objectContaining({ message: expect.stringContaining('is closed') })]);
});

describe('a sandbox that is closed while a cancel is not done', () => {
  test('keeps the end that was told, whatever becomes of the processes', () => {
    const { executions, journal } = sandbox;
    const execution = sandbox.execute({ executionId: 'one' });
    executions.started(execution.number, 100);
    execution.cancel();
    executions.exit(execution.number, exited);
    expect(execution.result).toBeUndefined();
    executions.lose('the session was closed');
    journal.close();
    sandbox.populated = false;
    vi.advanceTimersByTime(10_000);
    expect(execution.result?.reason).toBe(EndReason.SANDBOX_LOST);
  });

  test('has nobody kill a shell any more', async () => {
    const { executions, journal, sent } = sandbox;
    await openShell('shell');
    const execution = sandbox.execute({ executionId: 'one', shellId: 'shell' });
    executions.started(execution.number, 100);
    execution.cancel();
    executions.lose('the session was closed');
    journal.close();
    const before = sent.length;
    sandbox.populated = false;
    vi.advanceTimersByTime(20_000);
    expect(sent.length).toBe(before);
  });

  test('leaves the rest to the next worker if this one stops', () => {
    const { executions, journal } = sandbox;
    const execution = sandbox.execute({ executionId: 'one', timeout: durationFromMs(1_000) });
    const cancelled = sandbox.execute({ executionId: 'two' });
    for (const { number } of [execution, cancelled]) executions.started(number, 100);
    cancelled.cancel();
    executions.exit(cancelled.number, exited);
    executions.failReaders(new DomainError('WORKER_UNREACHABLE', 'the worker stops'));
    journal.close();
    sandbox.populated = false;
    vi.advanceTimersByTime(10_000);
    expect([execution.running, cancelled.running]).toEqual([true, true]);
  });
});

test('an execution whose prepared process had been killed is sent again, under another number', () => {
  const { executions, sent } = sandbox;
  const execution = sandbox.execute({ executionId: 'one' });
  const killed = execution.number;
  executions.failed(killed, failedStep.preparedGone, 3);
  expect([execution.running, execution.refusal]).toEqual([true, undefined]);
  expect(execution.number).toBeGreaterThan(killed);
  expect(sent.at(-2)).toEqual(forget(killed));
  executions.started(execution.number, 100);
  expect(execution.startedMs).toBeDefined();
  executions.lose('done');
});

describe('while the sandbox stands still', () => {
  test('no timeout runs for a command that is seen to start', () => {
    const { executions } = sandbox;
    executions.freeze();
    const execution = sandbox.execute({ executionId: 'one', timeout: durationFromMs(500) });
    executions.started(execution.number, 100);
    vi.advanceTimersByTime(1_000);
    executions.thaw();
    vi.advanceTimersByTime(499);
    executions.exit(execution.number, exited);
    expect(execution.result?.reason).toBe(EndReason.EXITED);
  });

  test('a command that is to end keeps the time it has for that, whether it was told before or meanwhile', () => {
    const { executions, sent } = sandbox;
    // The guest is asked to signal, as where no process is found in the cgroup.
    sandbox.populated = false;
    const before = sandbox.execute({ executionId: 'one' });
    const meanwhile = sandbox.execute({ executionId: 'two' });
    for (const { number } of [before, meanwhile]) executions.started(number, 100);
    const killed = () =>
      [before, meanwhile].map(({ number }) =>
        sent.some((frame) => frame.equals(signal(number, 9, signalScope.execution))),
      );
    before.cancel();
    executions.freeze();
    meanwhile.cancel();
    vi.advanceTimersByTime(10_000);
    executions.thaw();
    vi.advanceTimersByTime(1_999);
    expect(killed()).toEqual([false, false]);
    vi.advanceTimersByTime(1);
    expect(killed()).toEqual([true, true]);
  });
});

describe('input', () => {
  const text = Buffer.from('text');

  test('for a command that waits for its shell goes to nobody before its turn', async () => {
    const { executions, sent } = sandbox;
    await openShell('shell');
    const first = sandbox.execute({ executionId: 'one', shellId: 'shell' });
    executions.started(first.number, 100);
    const queued = sandbox.execute({ executionId: 'two', shellId: 'shell', inputOpen: true });
    const before = sent.length;
    const writing = queued.input.write(0, text, true);
    await Promise.resolve();
    expect(sent.slice(before)).toEqual([]);
    executions.exit(first.number, exited);
    await Promise.resolve();
    expect(sent.slice(-2)).toEqual([input(queued.number, 0, text), inputEnd(queued.number, text.length)]);
    executions.inputAck(queued.number, text.length, text.length, true, false);
    expect(await writing).toBe(text.length);
  });

  test('that was lost with its execution on a broken connection is sent again with it', async () => {
    const { executions, sent } = sandbox;
    const execution = sandbox.execute({ executionId: 'one', inputOpen: true });
    const lost = execution.number;
    void execution.input.write(0, text, false).catch(() => {});
    await Promise.resolve();
    expect(sent.at(-1)).toEqual(input(lost, 0, text));
    executions.disconnected();
    executions.connected(0n);
    executions.synced();
    await Promise.resolve();
    expect(execution.number).toBeGreaterThan(lost);
    expect(sent.at(-1)).toEqual(input(execution.number, 0, text));
    executions.lose('done');
  });
});

describe('on a full disk', () => {
  const fill = (room = 0) => {
    disk.room = room;
  };
  const clear = () => {
    disk.room = Number.POSITIVE_INFINITY;
    vi.advanceTimersByTime(1_000);
  };

  test('a timeout ends its execution', () => {
    const { executions } = sandbox;
    const execution = sandbox.execute({ executionId: 'one', timeout: durationFromMs(500) });
    executions.started(execution.number, 100);
    fill();
    vi.advanceTimersByTime(500);
    executions.exit(execution.number, exited);
    sandbox.populated = false;
    vi.advanceTimersByTime(50);
    expect(execution.result?.reason).toBe(EndReason.TIMED_OUT);
    clear();
  });

  test('a program that could not be started is told, and forgotten once that is recorded', () => {
    const { executions, sent } = sandbox;
    const execution = sandbox.execute({ executionId: 'one' });
    fill();
    executions.failed(execution.number, 5, 2);
    expect(execution.refusal?.reason).toBe('PROGRAM_NOT_STARTED');
    expect(sent).not.toContainEqual(forget(execution.number));
    clear();
    expect(sent).toContainEqual(forget(execution.number));
  });

  test('a command for a shell waits until its start can be recorded', async () => {
    await openShell('shell');
    fill();
    const execution = sandbox.execute({ executionId: 'one', shellId: 'shell' });
    expect(execution.waiting).toBe(true);
    clear();
    expect(execution.waiting).toBe(false);
  });

  test('a shell that was accepted is opened when that can be recorded', () => {
    const { executions } = sandbox;
    fill(1);
    void executions.shells.open(create(OpenShellRequestSchema, { shellId: 'shell' })).catch(() => {});
    const shell = executions.shells.find('shell');
    const before = sandbox.sent.length;
    clear();
    expect(sandbox.sent.slice(before).map((frame) => frame[4])).toEqual([73]);
    executions.shell(shell.number, 100, 1);
    expect(shell.idle).toBe(true);
  });

  test('a session can be closed', async () => {
    const { executions } = sandbox;
    await openShell('shell');
    const execution = sandbox.execute({ executionId: 'one' });
    fill();
    const closing = executions.shells.find('shell').close();
    executions.lose('the session was closed');
    await closing;
    expect(execution.refusal?.reason).toBe('SANDBOX_LOST');
    clear();
  });
});
