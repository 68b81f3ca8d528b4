import { closeSync, readSync, writeSync } from 'node:fs';
import { openAll } from './control-file.ts';
import type { ExecutionUsage } from './execution-cgroup.ts';

/** What a cgroup counts. Read once for most, for every command of a shell; then the files stay open, since opening costs most. */
export interface V1Counters {
  /** undefined: there is no cgroup, or no process was ever in it. */
  read(): ExecutionUsage | undefined;
  resetPeak(): void;
  release(): void;
}

interface Files {
  readonly cpu: number;
  readonly peak: number;
  readonly oom: number;
}

const text = Buffer.alloc(4_096);

export function readDescriptor(fd: number): string {
  return text.toString('latin1', 0, readSync(fd, text, 0, text.length, 0));
}

export function readOomKills(fd: number): number {
  return Number(/^oom_kill (\d+)/m.exec(readDescriptor(fd))?.[1] ?? 0);
}

export function createV1Counters(memory: string, cpuacct: string): V1Counters {
  let kept: Files | undefined;

  function open(): Files | undefined {
    return openAll((one) => ({
      cpu: one('r+', cpuacct, 'cpuacct.usage'),
      peak: one('r+', memory, 'memory.max_usage_in_bytes'),
      oom: one('r+', memory, 'memory.oom_control'),
    }));
  }

  /** A cgroup that goes away under the hand counts nothing any more. */
  function attempt<T>(use: (files: Files) => T): T | undefined {
    let files: Files | undefined;
    try {
      files = kept ?? open();
      return files && use(files);
    } catch {
      return undefined;
    } finally {
      if (files !== undefined && files !== kept) Object.values(files).forEach(closeSync);
    }
  }

  return {
    read: () =>
      attempt(({ cpu, peak, oom }) => {
        const peakMemoryBytes = Number(readDescriptor(peak));
        if (peakMemoryBytes === 0) return undefined;
        const cpuMicros = Math.round(Number(readDescriptor(cpu)) / 1000);
        return { cpuMicros, peakMemoryBytes, oomKills: readOomKills(oom) };
      }),
    resetPeak() {
      attempt((files) => {
        writeSync(files.peak, '0', 0);
        kept = files;
      });
    },
    release() {
      for (const fd of Object.values(kept ?? {})) closeSync(fd);
      kept = undefined;
    },
  };
}
