import { createThreadPool } from '../submission/thread-pool.ts';
import type { ParsedReport, ReportFile } from './parse-report.ts';
import type { ReportNews, ReportOrder } from './report-thread.ts';
import { defaultReportLimits, type ReportLimits } from './test-row.ts';

export interface ReportReaderOptions {
  readonly limits?: ReportLimits;
  /** The longest that reading one report may take. */
  readonly timeoutMs?: number;
  readonly heapMebibytes?: number;
  /** Reports that are read at one time; with as many as there are gradings, none waits for another's. */
  readonly threads?: number;
}

/**
 * Reads reports in threads with a memory limit and a deadline: a report that makes the parser slow or large costs its own
 * verdict, and neither the event loop nor the process.
 */
export interface ReportReader {
  read(file: ReportFile): Promise<ParsedReport>;
  close(): Promise<void>;
}

/** What the report did to its thread. That no thread can be had is a failure of ours. */
class Unreadable extends Error {}

export function createReportReader(options: ReportReaderOptions = {}): ReportReader {
  const { limits = defaultReportLimits, timeoutMs = 30_000, heapMebibytes = 512, threads: most = 1 } = options;
  const script = new URL('./report-thread.ts', import.meta.url);
  const threads = createThreadPool<ReportOrder, ReportNews>({ script, most, heapMebibytes });
  const reading = new Set<Promise<unknown>>();

  const read = (file: ReportFile): Promise<ParsedReport> =>
    threads.use(async (thread) => {
      thread.send({ file, limits });
      const { report } = await thread.next(timeoutMs).catch((error: Error) => {
        throw new Unreadable(error.message);
      });
      return report;
    });
  return {
    async read(file) {
      const { length } = file.bytes;
      if (length > limits.bytes) return { ok: false, reason: `${length} bytes, more than ${limits.bytes}` };
      const turn = read(file).catch((error: unknown) => {
        if (error instanceof Unreadable) return { ok: false, reason: `could not be read: ${error.message}` } as const;
        throw error;
      });
      reading.add(turn);
      return turn.finally(() => reading.delete(turn));
    },
    async close() {
      await Promise.allSettled(reading);
      await threads.close();
    },
  };
}
