import { expect, test } from 'vitest';
import { describeEnd, toErrorExitCode, toExitCode } from '../../cli/exit-code.ts';
import { AssayError, type ExecutionResult } from '../../clients/typescript/index.ts';

function result(fields: Partial<ExecutionResult>): ExecutionResult {
  return {
    reason: 'EXITED',
    exitCode: undefined,
    signal: undefined,
    durationMs: 1500,
    cpuTimeMs: 0,
    peakMemoryBytes: 0,
    stdoutBytes: 0,
    stderrBytes: 0,
    oomKills: 0,
    message: '',
    endTime: undefined,
    shellReopened: false,
    shellEnded: false,
    ...fields,
  };
}

test.each([
  ['an exit passes its code on', { exitCode: 7 }, 7],
  ['exit 137 stays 137', { exitCode: 137 }, 137],
  ['a signal is 128 and its number', { reason: 'SIGNALED', signal: 15 }, 143],
  ['a timeout is 124, whatever the program made of it', { reason: 'TIMED_OUT', exitCode: 0 }, 124],
  ['a cancelled command is 130', { reason: 'CANCELLED', signal: 15 }, 130],
  ['out of memory is 137', { reason: 'OUT_OF_MEMORY', exitCode: 1 }, 137],
  ['a lost sandbox is a failure of Assay', { reason: 'SANDBOX_LOST' }, 125],
] as const)('%s', (_, fields, code) => {
  expect(toExitCode(result(fields))).toBe(code);
});

test('only ends that the exit code does not explain get a sentence', () => {
  expect(describeEnd(result({ exitCode: 1 }))).toBeUndefined();
  expect(describeEnd(result({ reason: 'TIMED_OUT' }))).toBe('the command was ended after 1.5 s by its timeout');
});

test('a program that is not there is 127, one that cannot be executed 126, a wrong field 2, all else 125', () => {
  const code = (reason: string, metadata = {}) => toErrorExitCode(new AssayError(reason, 'x', { metadata }));
  expect(code('PROGRAM_NOT_STARTED', { errno: 'ENOENT' })).toBe(127);
  expect(code('PROGRAM_NOT_STARTED', { errno: 'EACCES' })).toBe(126);
  expect(code('INVALID_FIELD')).toBe(2);
  expect(code('SERVER_UNREACHABLE')).toBe(125);
});
