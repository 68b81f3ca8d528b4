import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { create, toBinary, toJson } from '@bufbuild/protobuf';
import { afterEach, describe, expect, test } from 'vitest';
import { ExecuteRequestSchema, ExecutionSchema } from '../../../gen/assay/v1/execution_pb.js';
import { viewOf } from '../../../services/sandbox-worker/execution/execution-view.ts';
import type { EventSink } from '../../../services/sandbox-worker/execution/subscription.ts';
import { forget } from '../../../services/sandbox-worker/guest/frame.ts';
import { createStandInSandbox, exited, type StandInSandbox } from './stand-in-sandbox.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let sandbox: StandInSandbox | undefined;
afterEach(() => {
  sandbox?.remove();
  sandbox = undefined;
});

/** Runs a command to its end that prints its own id. Nobody keeps it. */
function run({ executions, execute }: StandInSandbox, executionId: string): bigint {
  const { number } = execute({ executionId });
  const output = Buffer.from(executionId);
  executions.started(number, 100);
  executions.output(number, 1, 0, output);
  executions.delivered();
  executions.exit(number, { ...exited, stdoutBytes: output.length });
  executions.closed(number, output.length, 0);
  return number;
}

function runMany(on: StandInSandbox, count: number): bigint[] {
  const numbers = Array.from({ length: count }, (_, index) => run(on, `exe_${index}`));
  on.journal.flush();
  return numbers;
}

const viewsOf = ({ executions }: StandInSandbox) =>
  executions.list(0n, 1_000).map((execution) => JSON.stringify(toJson(ExecutionSchema, viewOf(execution))));

/** Resolves when the execution has left memory, where all others were asked for after it. */
async function gone({ executions }: StandInSandbox, id: string): Promise<void> {
  const execution = new WeakRef(executions.find(id));
  executions.list(0n, 10_000);
  await expect
    .poll(() => {
      collectGarbage();
      return execution.deref() === undefined;
    })
    .toBe(true);
}

function outputOf({ executions }: StandInSandbox, id: string): { text: string; gaps: number } {
  const found = { text: '', gaps: 0 };
  const sink: EventSink = {
    writable: true,
    event: (frame) => {
      if (frame.includes(0x2a)) found.gaps += 1;
    },
    output: (_, __, data) => {
      found.text += data.toString();
    },
    end() {},
    fail(error) {
      throw error;
    },
  };
  const subscription = executions.find(id).subscribe(sink, { stdout: 0, stderr: 0, followBackground: false });
  subscription.pump();
  return found;
}

describe('executions that ended long ago', () => {
  test('leave memory, and are found, listed and read as before', async () => {
    sandbox = createStandInSandbox({ ended: 5 });
    runMany(sandbox, 20);
    const before = viewsOf(sandbox);
    const used = sandbox.budget.usedBytes;
    await gone(sandbox, 'exe_0');
    expect(viewsOf(sandbox)).toEqual(before);
    expect(outputOf(sandbox, 'exe_0').text).toBe('exe_0');
    expect(sandbox.budget.usedBytes).toBe(used);
    expect([...sandbox.executions.heldBytes()]).toEqual(Array.from({ length: 20 }, () => 4_096));
  });

  test('are not run again when their id comes again, and refuse another command under it', async () => {
    sandbox = createStandInSandbox({ ended: 5 });
    runMany(sandbox, 20);
    await gone(sandbox, 'exe_3');
    const sent = sandbox.sent.length;
    expect(sandbox.execute({ executionId: 'exe_3' }).result?.stdoutBytes).toBe(5n);
    expect(sandbox.sent.length).toBe(sent);
    const other = create(ExecuteRequestSchema, {
      executionId: 'exe_2',
      program: { case: 'command', value: 'another' },
    });
    const { executions } = sandbox;
    expect(() => executions.accept(other, toBinary(ExecuteRequestSchema, other))).toThrow('another command');
    expect(executions.count).toBe(20);
  });

  test('are the same after a restart of the worker, which has no more of them in memory', async () => {
    const first = createStandInSandbox({ ended: 5 });
    runMany(first, 20);
    const before = viewsOf(first);
    first.journal.close();
    sandbox = createStandInSandbox({ ended: 5, directory: first.directory });
    expect(viewsOf(sandbox)).toEqual(before);
    await gone(sandbox, 'exe_0');
    expect(outputOf(sandbox, 'exe_7').text).toBe('exe_7');
    const sent = sandbox.sent.length;
    expect(sandbox.execute({ executionId: 'exe_7' }).result?.stdoutBytes).toBe(5n);
    expect(sandbox.sent.length).toBe(sent);
    expect(sandbox.budget.usedBytes).toBe(20 * 4_096);
  });

  test('give up their output like others, and tell the gap, also after a restart', async () => {
    const first = createStandInSandbox({ ended: 5 });
    runMany(first, 20);
    await gone(first, 'exe_0');
    expect(first.budget.full()).toBe(true);
    expect(first.budget.usedBytes).toBe(0);
    expect([...first.executions.heldBytes()]).toEqual([]);
    await gone(first, 'exe_1');
    expect(outputOf(first, 'exe_1')).toEqual({ text: '', gaps: 1 });
    first.journal.close();
    sandbox = createStandInSandbox({ ended: 5, directory: first.directory });
    expect(sandbox.budget.usedBytes).toBe(0);
    expect(outputOf(sandbox, 'exe_1').text).toBe('');
  });

  test('are forgotten by a guest that speaks of them again', async () => {
    sandbox = createStandInSandbox({ ended: 5 });
    const [number = 0n] = runMany(sandbox, 20);
    await gone(sandbox, 'exe_0');
    const { executions, sent } = sandbox;
    executions.disconnected();
    executions.connected(20n);
    executions.state(number, 5, 0, 0);
    expect(sent.at(-1)).toEqual(forget(number));
    executions.exit(number, { ...exited, stdoutBytes: 5 });
    executions.closed(number, 5, 0);
    expect(() => executions.exit(21n, exited)).toThrow('never started');
  });

  test('cost less than a kibibyte of memory each', async () => {
    const count = 4_000;
    sandbox = createStandInSandbox({ ended: 100, executions: 2 * count });
    runMany(sandbox, 200);
    await gone(sandbox, 'exe_0');
    const heldNow = () => {
      collectGarbage();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const before = heldNow();
    for (let each = 0; each < count; each += 1) run(sandbox, `more_${each}`);
    sandbox.sent.length = 0;
    sandbox.journal.flush();
    await gone(sandbox, 'more_3000');
    const cost = (heldNow() - before) / count;
    console.log(`${Math.round(cost)} bytes for an execution that ended long ago`);
    expect(cost).toBeLessThan(1_024);
  });
});
