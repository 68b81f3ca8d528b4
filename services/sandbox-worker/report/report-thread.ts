import { parentPort } from 'node:worker_threads';
import { type ParsedReport, parseReport, type ReportFile } from './parse-report.ts';
import type { ReportLimits } from './test-row.ts';

/** What a thread is told, and what it answers. */
export interface ReportOrder {
  readonly file: ReportFile;
  readonly limits: ReportLimits;
}
export interface ReportNews {
  readonly kind: 'read';
  readonly report: ParsedReport;
}

parentPort?.on('message', ({ file, limits }: ReportOrder) => {
  parentPort?.postMessage({ kind: 'read', report: parseReport(file, limits) } satisfies ReportNews);
});
