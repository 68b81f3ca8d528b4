import type { ReportFormat } from '../../shared/sample/verification-schema.ts';
import { parseCtrf } from './ctrf.ts';
import { parseGoTest } from './go-test.ts';
import { type JunitNames, parseJunit } from './junit.ts';
import { parseReward } from './reward.ts';
import { parseTap } from './tap.ts';
import { ReportError, type ReportLimits, type TestRow } from './test-row.ts';

/** What a report file says. */
export type ParsedReport =
  | { readonly ok: true; readonly rows: readonly TestRow[]; readonly reward: number | undefined }
  | { readonly ok: false; readonly reason: string };

export interface ReportFile {
  readonly format: Exclude<ReportFormat, 'exit-status'>;
  readonly names: JunitNames;
  readonly bytes: Uint8Array;
}

/** Reads one report file, which was written by somebody who may lie. Never throws for what it holds. */
export function parseReport(file: ReportFile, limits: ReportLimits): ParsedReport {
  try {
    if (file.format === 'reward') return { ok: true, ...parseReward(file.bytes, limits) };
    return { ok: true, rows: rowsOf(file, limits), reward: undefined };
  } catch (error) {
    if (error instanceof ReportError) return { ok: false, reason: printable(error.message) };
    if (error instanceof RangeError) return { ok: false, reason: 'too deep or too large to be read' };
    throw error;
  }
}

function rowsOf({ format, names, bytes }: ReportFile, limits: ReportLimits): TestRow[] {
  switch (format) {
    case 'junit':
      return parseJunit(bytes, limits, names);
    case 'tap':
      return parseTap(bytes, limits);
    case 'go-test-json':
      return parseGoTest(bytes, limits);
    case 'ctrf':
      return parseCtrf(bytes, limits);
    case 'reward':
      return parseReward(bytes, limits).rows;
  }
}

const reasonCharacters = 300;

/** A parser quotes what it stumbled over: as much as the report has, and with what would steer a terminal. */
function printable(reason: string): string {
  return reason
    .slice(0, reasonCharacters)
    .toWellFormed()
    .replace(/\p{Cc}/gu, '\ufffd');
}
