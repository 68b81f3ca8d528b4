import { create } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { EndReason } from '../../../gen/assay/v1/execution_pb.js';
import { OpenShellRequestSchema } from '../../../gen/assay/v1/shell_pb.js';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { createStandInSandbox, exited, type StandInSandbox } from './stand-in-sandbox.ts';

let sandbox: StandInSandbox;
beforeEach(() => {
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
