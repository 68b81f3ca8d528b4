import type { RunEnd } from '../../shared/verdict/outcome.ts';
import type { TestRow } from './test-row.ts';

/** The name of the one test that an exit status stands for. */
export const exitStatusTestName = 'exit status';

/** The row of a run that has no report but the status of its command. None where the command did not end by itself. */
export function exitStatusRow(end: RunEnd): TestRow | undefined {
  if (end.kind !== 'exited' && end.kind !== 'signaled') return undefined;
  const passed = end.kind === 'exited' && end.code === 0;
  const message = end.kind === 'exited' ? `exited with ${end.code}` : `ended by signal ${end.signal}`;
  const status = passed ? 'passed' : 'failed';
  return { name: exitStatusTestName, status, durationMs: undefined, message: passed ? '' : message };
}
