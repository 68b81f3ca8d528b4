import { abortable } from '../../shared/abortable.ts';
import type { PlannedRun } from '../../shared/sample/run-plan.ts';
import type { RunEnd, RunOutcome } from '../../shared/verdict/outcome.ts';
import { exitStatusRow } from '../report/exit-status.ts';
import type { ReportReader } from '../report/report-reader.ts';
import { defaultReportLimits, type TestRow } from '../report/test-row.ts';
import type { ReportBytes } from './report-folder.ts';

export type ReadReports = Pick<RunOutcome, 'tests' | 'badReports' | 'reward'>;

/** Reads the reports of a run whose container has no process left. */
export async function readReports(
  { reports }: PlannedRun,
  end: RunEnd,
  readFile: (path: string, limitBytes: number) => ReportBytes | Promise<ReportBytes>,
  reader: ReportReader,
  signal: AbortSignal,
): Promise<ReadReports> {
  const tests: TestRow[] = [];
  const badReports: string[] = [];
  const rewards: number[] = [];
  for (const { format, names, path = '' } of reports) {
    if (format === 'exit-status') {
      const row = exitStatusRow(end);
      if (row !== undefined) tests.push(row);
      continue;
    }
    const file = await readFile(path, defaultReportLimits.bytes);
    const parsed = file.ok ? await abortable(signal, reader.read({ format, names, bytes: file.bytes })) : file;
    if (!parsed.ok) badReports.push(`${path}: ${parsed.reason}`);
    else {
      // Not spread: as many arguments as a report may have rows are close to what the stack holds.
      for (const row of parsed.rows) tests.push(row);
      if (parsed.reward !== undefined) rewards.push(parsed.reward);
    }
  }
  return { tests, badReports, reward: rewards.length === 0 ? undefined : Math.min(...rewards) };
}
