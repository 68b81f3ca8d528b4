import { closeSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { ContainerProcess } from './container-process.ts';
import { openAll, readPids } from './control-file.ts';
import type { NestCgroup } from './execution-cgroup.ts';
import type { Placer } from './placer.ts';
import { readDescriptor as read, readOomKills } from './v1-counters.ts';
import { createV1Execution, type Directories } from './v1-execution.ts';

/** What an execution may leave charged, page cache mostly: the next one's peak is counted from there, so it must be little. */
const leftMemoryBytes = 1_048_576;

/** The control files of a nest, which stay open: opening one costs several times what reading it does. */
interface Controls {
  readonly procs: number;
  readonly cpu: number;
  readonly peak: number;
  readonly memory: number;
  readonly oom: number;
}

export function createV1Nest(container: ContainerProcess, directories: Directories, placer: Placer): NestCgroup {
  const { memory, cpuacct } = directories;
  let controls: Controls | undefined;
  /** The process that stays. */
  let resident = 0;
  /** What was charged when the present execution began. */
  let chargedBytes = 0;

  const pids = (): number[] => readPids(join(memory, 'cgroup.procs')).filter((pid) => pid !== resident);

  function close(): void {
    for (const fd of Object.values(controls ?? {})) closeSync(fd);
    controls = undefined;
  }

  /** undefined: no process is in it yet, or the container was removed under the open files. */
  function attempt<T>(use: (files: Controls) => T): T | undefined {
    if (controls === undefined) return undefined;
    try {
      return use(controls);
    } catch {
      return undefined;
    }
  }

  const execution = createV1Execution(container, directories, placer, pids);
  return {
    ...execution,
    async place(namespacePid) {
      const pid = await placer.place(container, [cpuacct, memory], namespacePid);
      if (pid === undefined) return false;
      // A process that could not be prepared comes in later, by the ordinary way.
      if (controls === undefined) {
        resident = pid;
        controls = open(directories);
      }
      return controls !== undefined;
    },
    usage() {
      return attempt(({ cpu, peak, oom }) => ({
        cpuMicros: Math.round(Number(read(cpu)) / 1000),
        peakMemoryBytes: Math.max(0, Number(read(peak)) - chargedBytes),
        oomKills: readOomKills(oom),
      }));
    },
    renew() {
      if (resident === 0) return false;
      const renewed = attempt(({ procs, cpu, peak, memory: usage, oom }) => {
        if (read(procs) !== `${resident}\n` || !read(oom).includes('oom_kill 0')) return false;
        const charged = Number(read(usage));
        if (charged > leftMemoryBytes) return false;
        writeSync(cpu, '0', 0);
        writeSync(peak, '0', 0);
        chargedBytes = charged;
        return true;
      });
      return renewed ?? false;
    },
    abandon() {
      resident = 0;
    },
    async remove() {
      const gone = await execution.remove();
      if (gone) close();
      return gone;
    },
  };
}

function open({ memory, cpuacct }: Directories): Controls | undefined {
  return openAll((one) => ({
    procs: one('r', memory, 'cgroup.procs'),
    cpu: one('r+', cpuacct, 'cpuacct.usage'),
    peak: one('r+', memory, 'memory.max_usage_in_bytes'),
    memory: one('r', memory, 'memory.usage_in_bytes'),
    oom: one('r', memory, 'memory.oom_control'),
  }));
}
