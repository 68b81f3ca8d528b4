import { Worker } from 'node:worker_threads';
import type { ParsedReport, ReportFile } from './parse-report.ts';
import { defaultReportLimits, type ReportLimits } from './test-row.ts';

export interface ReportReaderOptions {
  readonly limits?: ReportLimits;
  /** The longest that reading one report may take. */
  readonly timeoutMs?: number;
  readonly heapMebibytes?: number;
}

/**
 * Reads reports in a thread with a memory limit and a deadline: a report that makes the parser slow or large costs its own
 * verdict, and neither the event loop nor the process.
 */
export interface ReportReader {
  read(file: ReportFile): Promise<ParsedReport>;
  close(): Promise<void>;
}

export function createReportReader(options: ReportReaderOptions = {}): ReportReader {
  const { limits = defaultReportLimits, timeoutMs = 30_000, heapMebibytes = 512 } = options;
  let thread: Worker | undefined;
  let queue: Promise<unknown> = Promise.resolve();

  const start = (): Worker => {
    const started = new Worker(new URL('./report-thread.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
    });
    started.unref();
    return started;
  };
  const discard = (): void => {
    void thread?.terminate();
    thread = undefined;
  };
  const readNow = (file: ReportFile): Promise<ParsedReport> => {
    if (file.bytes.length > limits.bytes) {
      return Promise.resolve({ ok: false, reason: `${file.bytes.length} bytes, more than ${limits.bytes}` });
    }
    thread ??= start();
    const used = thread;
    return new Promise((resolve) => {
      const finish = (result: ParsedReport): void => {
        clearTimeout(timer);
        used.off('message', finish).off('error', fail).off('exit', exit);
        resolve(result);
      };
      const give = (reason: string): void => {
        finish({ ok: false, reason });
        discard();
      };
      // The thread is gone: out of memory, or the parser threw what it should not.
      const fail = (error: Error): void => give(`could not be read: ${error.message}`);
      const exit = (): void => give('could not be read');
      const timer = setTimeout(() => give(`took more than ${timeoutMs} ms to read`), timeoutMs);
      used.on('message', finish).on('error', fail).on('exit', exit);
      used.postMessage({ file, limits });
    });
  };
  return {
    read(file) {
      const turn = queue.then(() => readNow(file));
      queue = turn;
      return turn;
    },
    async close() {
      await queue;
      discard();
    },
  };
}
