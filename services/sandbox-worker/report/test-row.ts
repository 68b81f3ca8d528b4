/** What one test did, in the words of every format. */
export type TestStatus = 'passed' | 'failed' | 'skipped' | 'error';

export interface TestRow {
  readonly name: string;
  readonly status: TestStatus;
  /** Milliseconds, where the report says. */
  readonly durationMs: number | undefined;
  /** Why, as far as the report says; cut. */
  readonly message: string;
}

export interface ReportLimits {
  /** Of one report file. */
  readonly bytes: number;
  /** Tests of one report, duplicates included. */
  readonly tests: number;
  readonly nameBytes: number;
  /** What is kept of a message. */
  readonly messageBytes: number;
  /** Nested elements, subtests or values. */
  readonly depth: number;
}

export const defaultReportLimits: ReportLimits = {
  bytes: 16 * 2 ** 20,
  tests: 100_000,
  nameBytes: 1_024,
  messageBytes: 4_096,
  depth: 64,
};

/** A report that cannot be believed: it counts as missing, and the reason is told. */
export class ReportError extends Error {
  override readonly name = 'ReportError';
}

/** The worst first: a name that occurs twice has the worse of its two statuses. */
const severity: readonly TestStatus[] = ['error', 'failed', 'skipped', 'passed'];

export interface RowCollector {
  add(row: { name: string; status: TestStatus; durationMs?: number | undefined; message?: string | undefined }): void;
  /** One row for each name, in the order of their first occurrence. */
  rows(): TestRow[];
}

/** Collects rows within the limits. A test that both passed and failed has failed. */
export function createRowCollector(limits: ReportLimits): RowCollector {
  const rows = new Map<string, TestRow>();
  let added = 0;
  return {
    add({ name, status, durationMs, message = '' }) {
      added += 1;
      if (added > limits.tests) throw new ReportError(`more than ${limits.tests} tests`);
      if (name === '') throw new ReportError('a test without a name');
      if (Buffer.byteLength(name) > limits.nameBytes) {
        throw new ReportError(`a test's name of more than ${limits.nameBytes} bytes`);
      }
      const row = { name, status, durationMs: sane(durationMs), message: cut(message, limits.messageBytes) };
      const before = rows.get(name);
      if (before === undefined || severity.indexOf(status) < severity.indexOf(before.status)) rows.set(name, row);
    },
    rows: () => [...rows.values()],
  };
}

function sane(durationMs: number | undefined): number | undefined {
  if (durationMs === undefined || !Number.isFinite(durationMs) || durationMs < 0) return undefined;
  return Math.min(durationMs, 1e12);
}

function cut(message: string, bytes: number): string {
  const whole = message.toWellFormed();
  // A character takes at least a byte, so what lies beyond cannot be kept anyway.
  const short = whole.slice(0, bytes);
  if (Buffer.byteLength(short) <= bytes) return short;
  return new TextDecoder().decode(Buffer.from(short).subarray(0, bytes)).replace(/\ufffd$/, '');
}
