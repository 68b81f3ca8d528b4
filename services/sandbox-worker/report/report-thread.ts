import { parentPort } from 'node:worker_threads';
import { parseReport, type ReportFile } from './parse-report.ts';
import type { ReportLimits } from './test-row.ts';

parentPort?.on('message', ({ file, limits }: { file: ReportFile; limits: ReportLimits }) => {
  parentPort?.postMessage(parseReport(file, limits));
});
